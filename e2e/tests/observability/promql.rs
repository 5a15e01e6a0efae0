//! Parser for the part of PromQL that the alerts use. It checks an expression and finds the metrics in it. Anything
//! beyond this part is an error and must be added here.

/// Series and groupings of an expression.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expression {
    pub(crate) series: Vec<Series>,
    /// The labels by which an aggregation groups, each with the aggregated series.
    pub(crate) by: Vec<(String, Vec<Series>)>,
}

/// Series of one metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Label and values; a pattern has one value for each alternative.
    pub(crate) labels: Vec<(String, Vec<String>)>,
}

const AGGREGATIONS: [&str; 5] = ["sum", "max", "min", "avg", "count"];
/// Functions that take a range of time.
const OVER_TIME: [&str; 3] = ["rate", "increase", "changes"];
const FUNCTIONS: [&str; 3] = ["absent", "histogram_quantile", "time"];
/// Operators, weakest first; operators of equal strength stand together.
const OPERATORS: [&[&str]; 5] =
    [&["or"], &["and", "unless"], &["==", "!=", ">=", "<=", ">", "<"], &["+", "-"], &["*", "/", "%"]];

/// Reads an expression.
pub(crate) fn read(text: &str) -> Result<Expression, String> {
    let mut reader = Reader { tokens: tokens(text)?, at: 0, asks: Expression::default() };
    let over_time = reader.operation(0)?;
    match reader.peek() {
        _ if over_time => Err("a range is no condition".to_owned()),
        None => Ok(reader.asks),
        Some(token) => Err(format!("`{token}` is too much")),
    }
}

/// Splits an expression into words, numbers with units, quoted strings, and signs.
fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if first == '"' {
            rest[1..].find('"').ok_or("a string has no end")? + 2
        } else {
            let two = ["==", "!=", ">=", "<=", "=~", "!~"].into_iter().any(|sign| rest.starts_with(sign));
            if two { 2 } else { first.len_utf8() }
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct Reader {
    tokens: Vec<String>,
    at: usize,
    asks: Expression,
}

impl Reader {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    fn next(&mut self) -> Result<String, String> {
        let token = self.peek().map(str::to_owned).ok_or("the expression breaks off")?;
        self.at += 1;
        Ok(token)
    }

    fn take(&mut self, token: &str) -> bool {
        let is = self.peek() == Some(token);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        let found = self.next()?;
        if found == token { Ok(()) } else { Err(format!("`{found}` where `{token}` belongs")) }
    }

    /// Reads an operation. Returns true if the result is a range of time, which only a function may take.
    fn operation(&mut self, strength: usize) -> Result<bool, String> {
        let Some(operators) = OPERATORS.get(strength) else { return self.operand() };
        let mut over_time = self.operation(strength + 1)?;
        while let Some(operator) = self.peek().filter(|token| operators.contains(token)).map(str::to_owned) {
            self.at += 1;
            over_time |= self.operation(strength + 1)?;
            if over_time {
                return Err(format!("a range beside `{operator}`"));
            }
        }
        Ok(over_time)
    }

    fn operand(&mut self) -> Result<bool, String> {
        let token = self.next()?;
        let first = token.chars().next().unwrap_or_default();
        if token == "(" {
            let over_time = self.operation(0)?;
            self.expect(")")?;
            return Ok(over_time);
        }
        if first.is_ascii_digit() {
            return token.parse::<f64>().map(|_| false).map_err(|_| format!("`{token}` is no number"));
        }
        if !(first.is_ascii_alphabetic() || first == '_') {
            return Err(format!("`{token}` where a value belongs"));
        }
        if AGGREGATIONS.contains(&token.as_str()) {
            return self.aggregation().map(|()| false);
        }
        if self.peek() == Some("(") {
            return self.call(&token).map(|()| false);
        }
        self.series(token)
    }

    fn aggregation(&mut self) -> Result<(), String> {
        let before = self.asks.series.len();
        let mut by = self.grouping()?;
        self.expect("(")?;
        if self.operation(0)? {
            return Err("a range is not summed up".to_owned());
        }
        self.expect(")")?;
        by.extend(self.grouping()?);
        let of = self.asks.series[before..].to_vec();
        self.asks.by.extend(by.into_iter().map(|label| (label, of.clone())));
        Ok(())
    }

    fn grouping(&mut self) -> Result<Vec<String>, String> {
        let mut labels = Vec::new();
        if self.take("by") {
            self.expect("(")?;
            loop {
                labels.push(self.next()?);
                if !self.take(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        Ok(labels)
    }

    fn call(&mut self, function: &str) -> Result<(), String> {
        let takes_range = OVER_TIME.contains(&function);
        if !takes_range && !FUNCTIONS.contains(&function) {
            return Err(format!("`{function}` is no function that is known here"));
        }
        self.expect("(")?;
        if self.take(")") {
            return Ok(());
        }
        loop {
            if self.operation(0)? != takes_range {
                return Err(format!("`{function}` takes {}", if takes_range { "a range" } else { "no range" }));
            }
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")
    }

    fn series(&mut self, name: String) -> Result<bool, String> {
        let mut labels = Vec::new();
        if self.take("{") {
            while !self.take("}") {
                let (label, operator, value) = (self.next()?, self.next()?, self.next()?);
                if !["=", "!=", "=~", "!~"].contains(&operator.as_str()) || !value.starts_with('"') {
                    return Err(format!("`{label}{operator}{value}` selects nothing"));
                }
                let value = value.trim_matches('"');
                let is_pattern = operator.ends_with('~');
                let values = value.split('|').filter(|_| is_pattern).map(str::to_owned).collect::<Vec<_>>();
                labels.push((label, if is_pattern { values } else { vec![value.to_owned()] }));
                self.take(",");
            }
        }
        self.asks.series.push(Series { name, labels });
        let over_time = self.take("[");
        if over_time {
            let time = self.next()?;
            let number = time.trim_end_matches(['s', 'm', 'h', 'd']);
            if number.len() + 1 != time.len() || number.parse::<u32>().is_err() {
                return Err(format!("`{time}` is no time"));
            }
            self.expect("]")?;
        }
        Ok(over_time)
    }
}

#[test]
fn what_an_expression_asks_for_is_found_wherever_it_stands() {
    let asks =
        read(r#"histogram_quantile(0.9, sum by (le) (rate(a_bucket{x="1",y=~"p|q"}[5m]))) > 2 or absent(b)"#).unwrap();
    let labels = vec![("x".to_owned(), vec!["1".to_owned()]), ("y".to_owned(), vec!["p".to_owned(), "q".to_owned()])];
    let a = Series { name: "a_bucket".to_owned(), labels };
    let b = Series { name: "b".to_owned(), labels: Vec::new() };
    assert_eq!(asks, Expression { series: vec![a.clone(), b], by: vec![("le".to_owned(), vec![a])] });
}

#[test]
fn what_is_no_expression_is_an_error() {
    for text in [
        "",
        "a >",
        "a > > 1",
        "sum(a",
        "rate(a)",
        "rate(a[5])",
        "a[5m] > 1",
        "absent(a[5m])",
        "sum by (x (a)",
        "a{x=1}",
        "a{x",
        "a b",
        "a[5m]",
        "nothing(a)",
        "a{x=\"1}",
        "(a",
        "1x + a",
        "sum by () (a)",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}
