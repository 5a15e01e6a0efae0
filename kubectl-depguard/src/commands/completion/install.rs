//! Installation of the completion: a program for kubectl, and scripts for shells.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap_complete::Shell;

use super::protocol::COMPLETION_PROGRAM;
use super::scripts::{self, FOR_KUBECTL, MARK, PROGRAM};
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

/// Shells that have a folder for the scripts of a user.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Folders of the user that the installation writes to.
struct Folders {
    /// Folders of the PATH.
    path: Vec<PathBuf>,
    home: PathBuf,
}

/// Writes the program for kubectl, and the scripts of one shell, or of all shells that are installed.
pub(super) fn run(shell: Option<Shell>, terminal: &mut Terminal) -> Result<(), Failure> {
    let folders = Folders::from_env()?;
    let shells: Vec<_> = match shell {
        Some(shell) if SHELLS.contains(&shell) => vec![shell],
        Some(other) => {
            return Err(Failure::new(format!("{other} has no folder for the scripts of a user"))
                .hint(format!("print the script, and load it in your profile: kubectl depguard completion {other}")));
        }
        None => SHELLS.into_iter().filter(|shell| folders.finds(&shell.to_string()).is_some()).collect(),
    };
    let written = folders.write_for_kubectl()?;
    said(&written, terminal)?;
    for shell in shells {
        let (file, next) = folders.script(shell);
        check_own(&file)?;
        let script = scripts::installed(shell).unwrap_or_default();
        write_file(&file, script, 0o644).map_err(|why| not_written(&file, &why))?;
        said(&file, terminal)?;
        if let Some(next) = next {
            terminal.note(&next)?;
        }
    }
    Ok(())
}

impl Folders {
    fn from_env() -> Result<Self, Failure> {
        let home = absolute("HOME").ok_or_else(|| {
            Failure::new("HOME is not set to a folder").hint("set HOME, so that the scripts have a place")
        })?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        // A relative folder would be another one in each working directory.
        Ok(Self { path: std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect(), home })
    }

    /// Returns the first file of that name on the PATH.
    fn finds(&self, program: &str) -> Option<PathBuf> {
        self.path.iter().map(|folder| folder.join(program)).find(|file| file.exists())
    }

    /// Writes the program that kubectl runs: where it is already, beside the plugin, or in a folder of the PATH below
    /// the home folder.
    fn write_for_kubectl(&self) -> Result<PathBuf, Failure> {
        let Some(plugin) = self.finds(PROGRAM) else {
            return Err(Failure::new(format!("{PROGRAM} is in no folder of the PATH, so kubectl does not find it"))
                .hint("install it by krew, or move it to a folder of the PATH; then run this again"));
        };
        let own = self.path.iter().filter(|folder| folder.starts_with(&self.home)).map(PathBuf::as_path);
        let places: Vec<_> = match self.finds(COMPLETION_PROGRAM) {
            Some(found) => vec![found],
            None => plugin.parent().into_iter().chain(own).map(|folder| folder.join(COMPLETION_PROGRAM)).collect(),
        };
        for place in places {
            check_own(&place)?;
            match write_file(&place, FOR_KUBECTL.as_bytes(), 0o755) {
                Ok(()) => return Ok(place),
                Err(why) if is_closed(&why) => {}
                Err(why) => return Err(not_written(&place, &why)),
            }
        }
        Err(Failure::new(format!("no folder of the PATH can be written to, so {COMPLETION_PROGRAM} has no place"))
            .hint("create a folder such as ~/.local/bin, and add it to the PATH; then run this again"))
    }

    /// Returns the file of a shell's script, and what the user must do besides, if anything.
    fn script(&self, shell: Shell) -> (PathBuf, Option<String>) {
        let data = absolute("XDG_DATA_HOME").unwrap_or_else(|| self.home.join(".local/share"));
        match shell {
            Shell::Zsh => {
                let folder = data.join("zsh/site-functions");
                let line = format!("fpath+=({})", folder.display());
                let next = format!("zsh reads it if ~/.zshrc has this line before `compinit`: {line}");
                (folder.join(format!("_{PROGRAM}")), Some(next))
            }
            Shell::Fish => {
                let config = absolute("XDG_CONFIG_HOME").unwrap_or_else(|| self.home.join(".config"));
                (config.join("fish/completions").join(format!("{PROGRAM}.fish")), None)
            }
            _ => {
                let folder = absolute("BASH_COMPLETION_USER_DIR").unwrap_or_else(|| data.join("bash-completion"));
                let next = "bash reads it if the package bash-completion is installed; otherwise load it in ~/.bashrc";
                (folder.join("completions").join(PROGRAM), Some(next.to_owned()))
            }
        }
    }
}

/// Returns an absolute folder that a variable of the environment names.
fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

/// Refuses to replace a file that this command did not write. A link to the plugin, by its name, is like its own.
fn check_own(file: &Path) -> Result<(), Failure> {
    let target = fs::read_link(file).ok();
    if target.is_some_and(|target| target.file_name().is_some_and(|name| name == PROGRAM)) {
        return Ok(());
    }
    match fs::read(file) {
        Ok(content) if String::from_utf8_lossy(&content).contains(MARK) => Ok(()),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(Failure::new(format!("{} is there, and this command did not write it", file.display()))
            .hint("move it away, and run this again")),
        Err(why) => Err(Failure::new(format!("could not read {}: {why}", file.display()))),
    }
}

/// Writes a file as a whole, also over a link.
fn write_file(file: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let begun = file.with_extension(format!("{}.new", std::process::id()));
    let written = fs::write(&begun, content)
        .and_then(|()| fs::set_permissions(&begun, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&begun, file));
    if written.is_err() {
        // The error of the write says more than one of the removal.
        let _ = fs::remove_file(&begun);
    }
    written
}

/// Returns true if nobody may write there, so that another folder may do.
fn is_closed(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotADirectory)
}

fn not_written(file: &Path, why: &io::Error) -> Failure {
    Failure::new(format!("could not write {}: {why}", file.display()))
}

fn said(file: &Path, terminal: &mut Terminal) -> io::Result<()> {
    writeln!(terminal.out(), "wrote {}", file.display())
}
