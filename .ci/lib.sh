# Shared by the scripts of this folder: run from anywhere, stop at the first failure, say what runs and how long it took.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

stage() {
    local name=$1 start=$SECONDS
    shift
    printf '== %s\n' "$name"
    "$@" || { printf '!! %s failed after %ss: %s\n' "$name" "$((SECONDS - start))" "$*" >&2; exit 1; }
    printf '== %s: ok, %ss\n' "$name" "$((SECONDS - start))"
}

# Installs Debian packages by name; what is installed already costs nothing.
need_packages() {
    local package missing=()
    for package in "$@"; do
        dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        printf 'not root: install these Debian packages first: %s\n' "${missing[*]}" >&2
        return 1
    fi
    apt-get update -q >/dev/null
    local policy=/usr/sbin/policy-rc.d status=0 made=
    # Debian starts what it installs; the tests start their own etcd and BIRD, and want the ports free.
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        made=yes
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >/dev/null || status=$?
    [ -z "$made" ] || rm -f "$policy"
    return $status
}
