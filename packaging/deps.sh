#!/bin/sh
# Installs the missing dependencies for building, testing and measuring Baton
# from Debian's archive (12 and 13). Idempotent: it checks for each command or
# file first, and prints nothing if all are there.
#
#   packaging/deps.sh          install
#   packaging/deps.sh --check  only list what is missing; exit status 1 if any
set -eu

# command or file of the package : package
wanted='
clang-19:clang-19
llvm-strip-19:llvm-19
clang-format-19:clang-format-19
/usr/include/bpf/bpf_helpers.h:libbpf-dev
bpftool:bpftool
git:git
make:make
ip:iproute2
nft:nftables
ethtool:ethtool
tcpdump:tcpdump
nginx:nginx
/usr/lib/nginx/modules/ngx_stream_module.so:libnginx-mod-stream
apache2:apache2-bin
caddy:caddy
varnishd:varnish
gcc:gcc
haproxy:haproxy
ab:apache2-utils
wrk:wrk
iperf3:iperf3
curl:curl
wget:wget
wget2:wget2
aria2c:aria2
socat:socat
ssh:openssh-client
sshd:openssh-server
ping:iputils-ping
ovs-vswitchd:openvswitch-switch
ovs-testcontroller:openvswitch-testcontroller
bird:bird2
/usr/lib/frr/bgpd:frr
dot:graphviz
jq:jq
pkill:procps
goaccess:goaccess
prometheus:prometheus
rsyslogd:rsyslog
named-checkzone:bind9-utils
etcd:etcd-server
mmdebstrap:mmdebstrap
arch-test:arch-test
qemu-system-aarch64:qemu-system-arm
podman:podman
crun:crun
busybox:busybox-static
qemu-aarch64-static:qemu-user-static
qemu-system-x86_64:qemu-system-x86
mke2fs:e2fsprogs
xz:xz-utils
depmod:kmod
findmnt:util-linux
nsenter:util-linux
/usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring
nsd:nsd
knotd:knot
kdig:knot-dnsutils
dig:bind9-dnsutils
dnsperf:dnsperf
systemd-analyze:systemd
/var/lib/dpkg/info/openvswitch-source.list:openvswitch-source
/usr/share/doc/python3-venv/copyright:python3-venv
/usr/bin/python3-config:python3-dev
chromium:chromium
node:nodejs
npm:npm
/etc/ssl/certs/ca-certificates.crt:ca-certificates
'
# Services that these packages would start: they would occupy port 80 or change
# the machine's routes and switches.
services='podman podman-restart podman-auto-update rsyslog nginx ssh caddy haproxy varnish varnishncsa bird frr openvswitch-switch openvswitch-testcontroller ovs-record-hostname uuidd etcd nsd knot prometheus'

PATH=$PATH:/usr/sbin:/sbin
policy=/usr/sbin/policy-rc.d
kept=$policy.before-baton
mark='baton deps: no service starts'

has() { case $1 in /*) [ -e "$1" ] ;; *) command -v "$1" >/dev/null 2>&1 ;; esac; }

missing=
for line in $wanted; do
	has "${line%%:*}" || missing="$missing ${line#*:}"
done
if ! "$(dirname "$0")/go.sh" >/dev/null 2>&1; then
	missing="$missing golang-go"
fi

if [ -z "$missing" ]; then
	[ "${1:-}" = --check ] || "$(dirname "$0")/python.sh" || true
	exit 0
fi
if [ "${1:-}" = --check ]; then
	echo "missing:$missing"
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	echo "deps: needs root to install:$missing" >&2
	exit 1
fi
command -v apt-get >/dev/null || {
	echo "deps: no apt-get here; install by hand:$missing" >&2
	exit 1
}
echo "deps: installing:$missing"

restore() {
	if grep -qs "$mark" "$policy"; then rm -f "$policy"; fi
	if [ -e "$kept" ]; then mv -f "$kept" "$policy"; fi
}
restore # after a killed run
trap restore EXIT
trap 'exit 130' INT TERM HUP
if [ -e "$policy" ]; then mv "$policy" "$kept"; fi
printf '#!/bin/sh\n# %s\nexit 101\n' "$mark" >"$policy"
chmod 755 "$policy"

before=
for s in $services; do
	if has "/lib/systemd/system/$s.service" || has "/etc/init.d/$s"; then before="$before $s"; fi
done

log=$(mktemp)
run() {
	if ! DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		echo "deps: failed: $*" >&2
		exit 1
	fi
}
run apt-get -q update
# shellcheck disable=SC2086
run apt-get -qy install --no-install-recommends $missing
rm -f "$log"

# A package enables its service for the next boot: undo that for the packages
# installed here, and leave services alone that existed before.
for s in $services; do
	case " $before " in *" $s "*) continue ;; esac
	if command -v systemctl >/dev/null && has "/lib/systemd/system/$s.service"; then
		systemctl disable "$s" >/dev/null 2>&1 || echo "deps: could not disable $s: it may start at the next boot" >&2
	elif has "/etc/init.d/$s"; then
		update-rc.d "$s" disable >/dev/null 2>&1 || echo "deps: could not disable $s: it may start at the next boot" >&2
	fi
done
restore
trap - EXIT
"$(dirname "$0")/go.sh" >/dev/null
"$(dirname "$0")/python.sh" || true
echo "deps: done"
