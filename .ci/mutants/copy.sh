# shellcheck shell=bash
# For the scripts beside this one: goes to the checkout, copies it to where it may be broken, and finds the patches whose names
# begin with one of the script's arguments; without arguments, all.
set -euo pipefail
cd "$(dirname "$0")/../.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy"
# The checkout's own folder: what others have built of the dependencies serves here, too.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
# Each mutant changes one file.
export CARGO_INCREMENTAL=1
survivors=0
patches=()
for begins in "${@:-}"; do
  patches+=("$PWD"/.ci/mutants/"$begins"*.patch)
done

in_copy() {
  (cd "$copy" && "$@")
}

# survives MUTANT HOW OUTPUT: says so, and what was seen last.
survives() {
  echo "$1: $2"
  tail -20 <<<"$3"
  survivors=$((survivors + 1))
}
