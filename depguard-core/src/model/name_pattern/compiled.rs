//! Table of compiled expressions, by their text: one table for all rules. Its size is fixed, whoever writes the
//! rules.
//!
//! An expression that is in use lives on when the table forgets it. A forgotten expression is compiled again when it
//! is needed, in less than a millisecond.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::expression::{Expression, ExpressionError};

/// The most bytes that each half of the table holds.
const MAX_HALF: usize = 4 << 20;
/// Approximate size of an entry without its expression, in bytes.
const ENTRY: usize = 512;

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// Two halves of recently used expressions. Once the newer half is full, it becomes the older half, and the former
/// older half is forgotten.
#[derive(Debug, Default)]
struct Table {
    newer: Half,
    older: Half,
}

#[derive(Debug, Default)]
struct Half {
    by_text: HashMap<Arc<str>, Arc<Expression>>,
    bytes: usize,
}

/// Returns the expression of that text; compiles it if the table doesn't have it.
pub(super) fn get(text: &str) -> Result<Arc<Expression>, ExpressionError> {
    let lock = || TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lock().find(text) {
        return Ok(known);
    }
    // The lock is not held here: no thread waits while another compiles.
    let expression = Arc::new(Expression::compile(text)?);
    lock().insert(Arc::from(text), Arc::clone(&expression));
    Ok(expression)
}

impl Table {
    fn find(&mut self, text: &str) -> Option<Arc<Expression>> {
        if let Some(known) = self.newer.by_text.get(text) {
            return Some(Arc::clone(known));
        }
        let (text, known) = self.older.by_text.remove_entry(text)?;
        self.insert(text, Arc::clone(&known));
        Some(known)
    }

    fn insert(&mut self, text: Arc<str>, expression: Arc<Expression>) {
        let bytes = expression.size().saturating_add(ENTRY);
        if self.newer.bytes.saturating_add(bytes) > MAX_HALF {
            self.older = std::mem::take(&mut self.newer);
        }
        if self.newer.by_text.insert(text, expression).is_none() {
            self.newer.bytes = self.newer.bytes.saturating_add(bytes);
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        let halves = [&self.newer, &self.older].into_iter().flat_map(|half| half.by_text.values());
        halves.map(|expression| expression.size() + ENTRY).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_used_of_late_and_no_more_than_its_size() {
        let mut table = Table::default();
        let mut largest = 0;
        for number in 0..600 {
            let text = format!("{number}.{{1,60}}");
            let expression = Arc::new(Expression::compile(&text).unwrap());
            table.insert(Arc::from(text), expression);
            assert!(table.find("0.{1,60}").is_some(), "it is used all the time");
            largest = largest.max(table.bytes());
        }
        assert!(table.find("599.{1,60}").is_some() && table.find("1.{1,60}").is_none());
        assert!((MAX_HALF..=2 * MAX_HALF).contains(&largest), "{largest}");
    }

    #[test]
    fn equal_texts_are_compiled_once() {
        let first = get("^shared/(.*)$").unwrap();
        assert!(Arc::ptr_eq(&first, &get("^shared/(.*)$").unwrap()));
    }
}
