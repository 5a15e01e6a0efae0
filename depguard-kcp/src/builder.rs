//! Builder methods of structs that have many fields.

/// Makes a builder method for each of these public fields of `Self`. The method sets its field. For depguard's own
/// crates.
#[doc(hidden)]
#[macro_export]
macro_rules! builder_methods {
    ($($field:ident: $type:ty),* $(,)?) => {$(
        #[doc = concat!("The same with another [`", stringify!($field), "`](Self#structfield.", stringify!($field), ").")]
        #[must_use]
        pub fn $field(self, $field: $type) -> Self {
            Self { $field, ..self }
        }
    )*};
}
