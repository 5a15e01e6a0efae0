//! Resources that the webhook's process holds at a moment.

use crate::Result;
use crate::child::Child;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessUsage {
    /// Memory in bytes.
    pub(crate) memory: u64,
    pub(crate) tasks: u64,
    pub(crate) descriptors: u64,
}

impl ProcessUsage {
    pub(crate) async fn from_process(child: &mut Child) -> Result<Self> {
        let said = child.ask(&"what do you hold").await?;
        let number = |name: &str| said[name].as_u64().ok_or("the webhook did not report what it holds");
        Ok(Self { memory: child.usage().memory()?, tasks: number("tasks")?, descriptors: number("descriptors")? })
    }
}
