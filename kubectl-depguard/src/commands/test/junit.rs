//! JUnit XML for CI systems.

use std::fmt::Write;

use super::case::SuiteResult;

/// Returns the report of all suites.
pub(crate) fn print(results: &[SuiteResult]) -> String {
    let failed = |suite: &SuiteResult| suite.tests.iter().filter(|test| !test.passed()).count();
    let (tests, failures): (usize, usize) =
        results.iter().fold((0, 0), |(tests, failures), suite| (tests + suite.tests.len(), failures + failed(suite)));
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string can't fail.
    let _ = writeln!(xml, "<testsuites tests=\"{tests}\" failures=\"{failures}\">");
    for suite in results {
        let (name, file) = (escaped(&suite.name), escaped(&suite.file));
        let (tests, failures) = (suite.tests.len(), failed(suite));
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{name}\" file=\"{file}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"0\">"
        );
        for test in &suite.tests {
            let (title, line) = (escaped(&test.name), test.line);
            let _ = write!(xml, "    <testcase name=\"{title}\" classname=\"{name}\" file=\"{file}\" line=\"{line}\"");
            if test.passed() {
                xml.push_str("/>\n");
                continue;
            }
            let what: Vec<_> = test.differences.iter().map(|difference| difference.what).collect();
            let _ = writeln!(xml, ">\n      <failure message=\"not as expected: {}\">", escaped(&what.join(", ")));
            for difference in &test.differences {
                let _ = writeln!(xml, "{}", escaped(&difference.to_string()));
            }
            xml.push_str("</failure>\n    </testcase>\n");
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

/// Escapes a text for attributes and for text between tags. A character that XML can't hold becomes U+FFFD.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            // XML readers replace each of these with a space, unless it is written as a number.
            '\t' | '\n' | '\r' => {
                let _ = write!(escaped, "&#{};", u32::from(c));
            }
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_breaks_the_xml() {
        assert_eq!(
            escaped("a<b>&\"c\"'d'\n\u{1}\u{1b}[31m]]>é"),
            "a&lt;b&gt;&amp;&quot;c&quot;&apos;d&apos;&#10;\u{fffd}\u{fffd}[31m]]&gt;é"
        );
    }
}
