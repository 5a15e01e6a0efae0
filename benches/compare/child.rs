//! Role in a process of its own: one line of JSON in, one line out.

use std::process::Stdio;

use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child as Process, ChildStdin, ChildStdout, Command};

use crate::Result;
use crate::usage::Usage;

/// Child process. It is killed when it is dropped.
pub(crate) struct Child {
    process: Process,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    usage: Usage,
}

impl Child {
    /// Starts a role. Returns the child and the line that it prints once it is ready.
    pub(crate) async fn start(role: &str, arguments: &[String]) -> Result<(Self, Value)> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["role", role])
            .args(arguments)
            // As the chart sets it: what is freed goes back at once.
            .env("MIMALLOC_PURGE_DELAY", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let missing = || format!("the {role} has no pipes");
        let input = process.stdin.take().ok_or_else(missing)?;
        let output = process.stdout.take().ok_or_else(missing)?;
        let usage = Usage::from_pid(process.id().ok_or_else(missing)?);
        let mut child = Self { process, input, output: BufReader::new(output).lines(), usage };
        let ready = child.read().await?;
        Ok((child, ready))
    }

    pub(crate) async fn ask(&mut self, question: &impl Serialize) -> Result<Value> {
        let mut line = serde_json::to_vec(question)?;
        line.push(b'\n');
        self.input.write_all(&line).await?;
        self.read().await
    }

    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    async fn read(&mut self) -> Result<Value> {
        match self.output.next_line().await? {
            Some(line) => Ok(serde_json::from_str(&line)?),
            None => Err(format!("a process ended: {}", self.process.wait().await?).into()),
        }
    }
}
