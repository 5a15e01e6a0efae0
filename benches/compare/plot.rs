//! Plot: time of an allowed DELETE over the number of dependents.

use std::path::Path;

use plotters::prelude::*;

use crate::Result;
use crate::report::Report;
use crate::scene::Subject;

const SUBJECTS: [(Subject, RGBColor); 5] = [
    (Subject::StandIn, RGBColor(200, 60, 50)),
    (Subject::Lists, RGBColor(40, 90, 180)),
    (Subject::Floor, RGBColor(120, 120, 120)),
    (Subject::Prints, RGBColor(200, 140, 20)),
    (Subject::Selects, RGBColor(30, 140, 80)),
];

type Points = Vec<(f64, f64)>;

/// Draws the plot with two logarithmic axes.
pub(crate) fn draw(report: &Report, file: &Path) -> Result {
    let all: Vec<Points> = SUBJECTS.iter().map(|(subject, _)| points(report, *subject)).collect();
    let area = SVGBackend::new(file, (640, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let every = || all.iter().flatten();
    let (left, right) = bounds(every().map(|point| point.0));
    let (low, high) = bounds(every().map(|point| point.1));
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("one allowed DELETE, dependents of 2 kB, on {}", report.server), ("sans-serif", 15))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d((left * 0.8..right * 1.25).log_scale(), (low * 0.6..high * 1.6).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("dependents")
        .y_desc("milliseconds")
        // A logarithmic axis gets labels at the powers of ten only, because others would overlap.
        .x_label_formatter(&|x| match (x.log10() - x.log10().round()).abs() {
            ..1e-6 => crate::report::thousands(x.round() as usize),
            _ => String::new(),
        })
        .y_label_formatter(&|y| if *y < 1.0 { format!("{y}") } else { crate::report::thousands(y.round() as usize) })
        .light_line_style(WHITE)
        .draw()?;
    for ((subject, color), points) in SUBJECTS.iter().zip(&all) {
        if points.is_empty() {
            continue;
        }
        let style = color.stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style))?
            .label(subject.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(area.present()?)
}

fn points(report: &Report, subject: Subject) -> Points {
    let mut points: Points = report
        .measured
        .iter()
        .filter(|one| one.case.amounts.bytes == 2_000)
        .filter_map(|one| {
            let time = one.figures(subject, true)?.time;
            Some((one.case.amounts.dependents as f64, time.as_secs_f64() * 1e3))
        })
        .collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, 1e-3), |(low, high), value| (low.min(value), high.max(value)))
}
