//! Scripts by which shells complete the words after `kubectl-depguard`.

use clap_complete::{Shell, generate};

/// Name of the completed command.
pub(super) const PROGRAM: &str = "kubectl-depguard";

/// Text in each file that the installation writes, by which it knows the file as its own.
pub(super) const MARK: &str = "Completion of kubectl-depguard";

/// Program that kubectl runs to complete the words after `kubectl depguard`. It finds the plugin by its name, and so
/// survives an update of the plugin.
pub(super) const FOR_KUBECTL: &str =
    "#!/bin/sh\n# Completion of kubectl-depguard through kubectl\nexec kubectl-depguard __complete \"$@\"\n";

/// Script of bash. Bash splits words at `=` and `:`, so the script puts them together again, and cuts from each
/// candidate the part that stands before the last of these.
const BASH: &str = r#"# Completion of kubectl-depguard in bash
_kubectl_depguard() {
    local -a words=()
    local word glued='' current cut='' out directive line i
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ ${#words[@]} -gt 0 && ($glued || $word == [=:]*) ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        glued=''
        [[ $word == *[=:] ]] && glued=yes
    done
    current=${words[${#words[@]} - 1]}
    [[ $current == *[=:]* ]] && cut=${current%"${current##*[=:]}"}
    out=$(kubectl-depguard __complete "${words[@]}" 2>/dev/null) || return
    directive=${out##*$'\n'}
    COMPREPLY=()
    while IFS= read -r line; do
        line=${line%%$'\t'*}
        [[ $line ]] && COMPREPLY+=("${line#"$cut"}")
    done <<<"${out%"$directive"}"
    if [[ $directive != ':0' ]] && type compopt &>/dev/null; then
        compopt +o default
    fi
}
complete -o default -F _kubectl_depguard kubectl-depguard
"#;

/// Script of zsh, which also works as the file `_kubectl-depguard` in a folder of the fpath.
const ZSH: &str = r#"#compdef kubectl-depguard
# Completion of kubectl-depguard in zsh
_kubectl_depguard() {
    local -a lines described
    local line directive
    lines=("${(@f)$(kubectl-depguard __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    directive=$lines[-1]
    lines[-1]=()
    for line in "${lines[@]}"; do
        described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    (( $#described )) && _describe -t depguard 'kubectl depguard' described
    [[ $directive == ':0' ]] && _files
}
if [[ $funcstack[1] == _kubectl-depguard ]]; then
    _kubectl_depguard "$@"
else
    compdef _kubectl_depguard kubectl-depguard
fi
"#;

const FISH: &str = r#"# Completion of kubectl-depguard in fish
function __kubectl_depguard_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines (kubectl-depguard __complete $words[2..-1] "$current" 2>/dev/null)
    set -q lines[1]; or return
    set -q lines[2]; and printf '%s\n' $lines[1..-2]
    test "$lines[-1]" = ':0'; and __fish_complete_path "$current"
end
complete -c kubectl-depguard -f -a '(__kubectl_depguard_complete)'
"#;

/// Returns the script of a shell. The scripts of bash, zsh and fish ask this program for the candidates; those of other
/// shells know only the commands and flags of `command`.
pub(super) fn script(shell: Shell, command: clap::Command) -> Vec<u8> {
    installed(shell).map(<[u8]>::to_vec).unwrap_or_else(|| {
        let mut script = Vec::new();
        generate(shell, &mut command.name(PROGRAM).bin_name(PROGRAM), PROGRAM, &mut script);
        script
    })
}

/// Returns the script that asks this program for the candidates, if the shell has one.
pub(super) fn installed(shell: Shell) -> Option<&'static [u8]> {
    match shell {
        Shell::Bash => Some(BASH.as_bytes()),
        Shell::Zsh => Some(ZSH.as_bytes()),
        Shell::Fish => Some(FISH.as_bytes()),
        _ => None,
    }
}
