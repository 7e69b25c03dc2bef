# Sourced by the scripts beside it: finds a Python and keeps virtual environments up to date.
# Everything here talks on stderr; stdout belongs to the program that is run.

oldest_minor=10
pythons=(python3.13 python3.12 python3.11 python3.10 python3 python)

say() { printf '%s\n' "$*" >&2; }

fail() {
  say "$1"
  shift
  for hint in "$@"; do say "  $hint"; done
  exit 1
}

# Prints the first Python that runs, is new enough and can make virtual environments.
find_python() { # NAMES...
  local minor found_without_venv="" python
  for python in "$@"; do
    command -v "$python" >/dev/null 2>&1 || continue
    # A version manager's shim may exist for a Python that isn't there, so it has to run.
    "$python" -c "import sys; sys.exit(sys.version_info < (3, $oldest_minor))" \
      >/dev/null 2>&1 || continue
    if "$python" -c "import venv, ensurepip" >/dev/null 2>&1; then
      "$python" -c "import os, sys; print(os.path.realpath(sys.executable))"
      return
    fi
    found_without_venv=$python
  done
  if [ -n "$found_without_venv" ]; then
    minor=$("$found_without_venv" -c "import sys; print(sys.version_info[1])")
    fail "$found_without_venv cannot make virtual environments: its venv module is missing." \
      "Debian and Ubuntu: apt-get install python3.$minor-venv"
  fi
  fail "ai4infra needs Python 3.$oldest_minor or newer; none was found (looked for: $*)." \
    "Debian and Ubuntu: apt-get install python3 python3-venv · macOS: brew install python@3.13"
}

run_quietly() { # COMMAND...: its output is shown only when it fails
  local log
  log=$(mktemp "${TMPDIR:-/tmp}/ai4infra-setup.XXXXXX")
  if ! "$@" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

# An environment moves neither with its folder nor with its interpreter.
venv_identity() { printf '%s\n' "$1 $(readlink -f "$1/bin/python" 2>/dev/null)"; }

venv_is_sound() { # DIR
  [ -x "$1/bin/python" ] && [ -f "$1/identity" ] &&
    [ "$(<"$1/identity")" = "$(venv_identity "$1")" ]
}

make_venv() { # DIR PYTHON
  rm -rf "$1"
  run_quietly "$2" -m venv "$1" || fail "$2 could not make the virtual environment $1."
  venv_identity "$1" >"$1/identity"
}

fingerprint() { # FILE WORDS...: of a file's content and of the words
  local file=$1
  shift
  { printf '%s\n' "$@"; cat "$file"; } | cksum
}

is_installed() { # DIR STAMP FILE PIP-ARGUMENTS...
  local dir=$1 stamp=$2
  shift 2
  venv_is_sound "$dir" && [ -f "$dir/$stamp" ] && [ "$(<"$dir/$stamp")" = "$(fingerprint "$@")" ]
}

pip_install() { # DIR PIP-ARGUMENTS...
  local dir=$1
  shift
  run_quietly "$dir/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --no-warn-script-location "$@" </dev/null ||
    fail "pip could not install $*." "Its last lines are above; is the package index reachable?"
}

# Waits for another script that sets up the same environment, where the system has flock.
lock() { # DIR
  command -v flock >/dev/null 2>&1 || return 0
  exec 9>"$1.lock"
  flock 9
}

unlock() { exec 9>&-; }

# Installs into DIR what the arguments say, unless it is there: at once when nothing is to do.
ensure_installed() { # TEXT DIR STAMP PYTHONS FILE PIP-ARGUMENTS...
  local text=$1 dir=$2 stamp=$3 names=$4 python
  shift 4
  is_installed "$dir" "$stamp" "$@" && return
  lock "$dir"
  if ! is_installed "$dir" "$stamp" "$@"; then
    say "$text"
    if ! venv_is_sound "$dir"; then
      # shellcheck disable=SC2086 # a list of names
      python=$(find_python $names)
      make_venv "$dir" "$python"
    fi
    pip_install "$dir" "${@:2}"
    fingerprint "$@" >"$dir/$stamp"
  fi
  unlock
}

# Installs Debian packages, each named after the file that tells that it is there.
ensure_debian() { # FILE=PACKAGE...
  local pair missing=()
  for pair in "$@"; do
    [ -e "${pair%%=*}" ] || missing+=("${pair#*=}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    fail "The slow tests need ${missing[*]}." \
      "Debian and Ubuntu: apt-get install ${missing[*]} · --fast leaves these tests out"
  fi
  say "Installing ${missing[*]}, once …"
  run_quietly apt-get update --quiet || fail "apt-get could not update its lists."
  DEBIAN_FRONTEND=noninteractive run_quietly apt-get install --quiet --yes \
    --no-install-recommends "${missing[@]}" || fail "apt-get could not install ${missing[*]}."
}

# Sets AI4INFRA_TEST_AZ, unless it is set. The Azure CLI pins versions, so it lives by itself.
ensure_azure_cli() {
  local wanted=$root/scripts/helpers/az-requirements.txt
  [ -z "${AI4INFRA_TEST_AZ:-}" ] || return 0
  ensure_installed "Installing the Azure CLI into $root/.venv-az, once (a minute or two) …" \
    "$root/.venv-az" azure-cli "${pythons[*]}" "$wanted" --requirement "$wanted"
  export AI4INFRA_TEST_AZ=$root/.venv-az/bin/az
}

azurite=azurite@3.37.0

# Sets AI4INFRA_AZURITE, unless it is set: the program behind the sandbox's data plane.
ensure_azurite() {
  local dir=$root/.venv-azurite
  [ -z "${AI4INFRA_AZURITE:-}" ] || return 0
  export AI4INFRA_AZURITE=$dir/node_modules/.bin/azurite-blob
  if [ -x "$AI4INFRA_AZURITE" ] && [ "$(cat "$dir/installed" 2>/dev/null)" = "$azurite" ]; then
    return 0
  fi
  command -v npm >/dev/null 2>&1 || fail "The tests of the data plane need npm, of Node.js." \
    "Debian and Ubuntu: apt-get install npm · macOS: brew install node"
  lock "$dir"
  say "Installing Azurite into $dir, once …"
  run_quietly npm install --no-audit --no-fund --prefix "$dir" "$azurite" ||
    fail "npm could not install $azurite."
  printf '%s\n' "$azurite" >"$dir/installed"
  unlock
}
