#!/usr/bin/env bash
# Makes the virtual environment, installs the pins and warpgrade's wheel, and Debian packages where it may.
# Does only what is missing: a second run changes nothing and needs no network. Called by `make setup`.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${VENV:-.venv}
state=$venv/.warpgrade-setup # what was installed last; inside the environment, so that it goes when that goes
say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# --- Debian packages -------------------------------------------------------------------------------------------

# Prints the prefix with which apt-get may be run, or fails where it may not.
apt_prefix() {
    [ "${SYSTEM_PACKAGES:-yes}" = yes ] && command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" = 0 ]; then echo env; elif sudo -n true 2>/dev/null; then echo "sudo -n env"; else return 1; fi
}

# apt_install PACKAGE...: true when they are there afterwards. Refreshes the package lists only if that is needed.
apt_install() {
    local prefix log
    prefix=$(apt_prefix) || return 1
    log=$(mktemp)
    say "installing Debian packages: $*"
    install() { $prefix DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >"$log" 2>&1 </dev/null; }
    if install "$@" || { $prefix apt-get update >>"$log" 2>&1 </dev/null && install "$@"; }; then
        rm -f "$log"
    else
        say "apt-get could not install them; its last words:"
        tail -n 5 "$log" | sed 's/^/    /'
        rm -f "$log"
        return 1
    fi
}

# --- Python ----------------------------------------------------------------------------------------------------

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

choose_python() {
    if [ -n "${PYTHON:-}" ]; then
        "$PYTHON" -c '' 2>/dev/null || die "PYTHON=$PYTHON does not start."
        new_enough "$PYTHON" || die "PYTHON=$PYTHON is $("$PYTHON" -V 2>&1), and nbgrader 0.9.6 needs Python 3.11 or newer."
        return
    fi
    for PYTHON in python3.11 python3.12 python3.13 python3; do
        if command -v "$PYTHON" >/dev/null && new_enough "$PYTHON"; then return; fi
    done
    die "no Python 3.11 or newer found (python3 is $(python3 -V 2>&1 || echo missing)). Install one
       (Debian, Ubuntu: apt-get install python3.11 python3.11-venv) or name it: PYTHON=/path/to/python3.11 make setup"
}

if [ -x "$venv/bin/python" ]; then
    new_enough "$venv/bin/python" || die "the Python of $venv is older than 3.11 or does not start. Remove $venv and run make setup again."
else
    choose_python
    if ! "$PYTHON" -c 'import ensurepip' 2>/dev/null; then # Debian keeps it in a package of its own
        version=$("$PYTHON" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        apt_install "$version" || die "$PYTHON cannot make virtual environments. Install its module: sudo apt-get install $version"
    fi
    if [ -e "$venv/pyvenv.cfg" ]; then
        rm -rf "$venv" # of a run that was stopped half way
    elif [ -n "$(ls -A "$venv" 2>/dev/null)" ]; then
        die "$venv is there and is no virtual environment. Name another folder: VENV=... make setup"
    fi
    say "making $venv with $("$PYTHON" -V)"
    "$PYTHON" -m venv "$venv"
fi
python=$venv/bin/python
mkdir -p "$state"
quiet=(--quiet --quiet)
if [ -t 1 ]; then quiet=(); fi # someone is watching: show pip's progress
pip() { "$python" -m pip --disable-pip-version-check "$@" </dev/null; }

if ! cmp -s requirements.txt "$state/requirements.txt"; then
    "$python" -c 'import pip' 2>/dev/null || "$python" -m ensurepip >/dev/null # uv makes environments without pip
    say "installing requirements.txt (about 6 GB with PyTorch's CUDA libraries the first time: some minutes)"
    pip install ${quiet[@]+"${quiet[@]}"} -r requirements.txt
    pip check
    cp requirements.txt "$state/requirements.txt"
fi

# --- warpgrade, as a wheel: an editable install points into the course, which a sandbox must not see ------------

list_files() { find warpgrade pyproject.toml -type f ! -name '*.py[co]' ! -name '.*' -exec cksum {} + | LC_ALL=C sort -k3; }
installed() { "$python" -P -c 'import warpgrade' 2>/dev/null && ! ls "$venv"/lib/python*/site-packages/__editable__*warpgrade* >/dev/null 2>&1; }
list_files >"$state/now"
if ! cmp -s "$state/now" "$state/warpgrade" || ! installed; then
    say "installing warpgrade"
    built=$(mktemp -d)
    trap 'rm -rf "$built"' EXIT
    cp -R warpgrade pyproject.toml README.md LICENSE "$built" # so that nothing of an older build gets in
    pip install --quiet --quiet --no-deps --no-build-isolation --no-index --force-reinstall "$built"
    mv "$state/now" "$state/warpgrade"
fi

# --- programs that a package manager brings ----------------------------------------------------------------------

missing=()
[ "$(uname -s)" != Linux ] || command -v bwrap >/dev/null || missing+=(bubblewrap)
command -v g++ >/dev/null || missing+=(g++)
if [ ${#missing[@]} -gt 0 ] && ! apt_install "${missing[@]}"; then
    for package in "${missing[@]}"; do
        case $package in
        bubblewrap) say "bubblewrap is missing and could not be installed from here. Without it nothing can be graded: the
       sandbox is made of it. Your own notebook can still be judged with --no-sandbox. Install it:" ;;
        g++) say "g++ is missing and could not be installed from here. CUDA exercises cannot be compiled, and Triton cannot
       start on a GPU. Install it:" ;;
        esac
        say "    sudo apt-get install $package      (Fedora: sudo dnf install ${package/g++/gcc-c++})"
    done
fi
say "ready. What is on and off here: $venv/bin/warpgrade doctor"
