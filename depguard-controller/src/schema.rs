pub(crate) mod answers;
pub(crate) mod kind_reader;
