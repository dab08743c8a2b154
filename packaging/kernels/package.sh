#!/bin/sh
# Runs in a guest with systemd: installs the package as docs/install.md tells, and takes it through its life with a live session.
#
#   package.sh DEBS PAGE        DEBS has a package of 0.1.0~test1 in older, of 0.1.0~test2 in newer; PAGE is docs/install.md
set -eu
debs=$1 page=$(realpath "$2")
fail() {
	journalctl -u baton-router --no-pager -n 30 >&2 || true
	echo "package.sh: $*" >&2
	exit 1
}
# Repeats a command until it succeeds.
await() { # SECONDS COMMAND...
	n=$1
	shift
	until "$@" >/dev/null 2>&1; do
		n=$((n - 1))
		[ $n -gt 0 ] || fail "not in time: $*"
		sleep 1
	done
}

# The network of the page: the guest is the router, its client and servers are namespaces.
cable() { # NAMESPACE INTERFACE ROUTER-ADDRESS ADDRESS
	ip netns add "$1"
	ip link add "$2" type veth peer name eth0 netns "$1"
	ip addr add "$3/24" dev "$2"
	ip link set "$2" up
	ip -n "$1" link set lo up
	ip -n "$1" addr add "$4/24" dev eth0
	ip -n "$1" link set eth0 up
	ip -n "$1" route add default via "$3"
}
cable client eth0 198.51.100.1 198.51.100.2
cable s1 eth1 10.2.1.1 10.2.1.2
cable s2 eth2 10.2.2.1 10.2.2.2
sysctl -qw net.ipv4.ip_forward=1
mkdir -p /var/tmp/site
echo welcome >/var/tmp/site/index.html
head -c 20000000 /dev/urandom >/var/tmp/site/large
for s in s1 s2; do
	cat >/var/tmp/$s.conf <<-END
		pid /run/nginx-$s.pid; error_log /var/tmp/$s.log; worker_processes 1; events {}
		http { access_log off; send_timeout 3600s; keepalive_requests 100000; server { listen 80; root /var/tmp/site; } }
	END
	ip netns exec $s nginx -c /var/tmp/$s.conf
done

# The page's commands, as they stand.
block() { # N: the block of shell commands after the heading
	awk -v want="$1" '/^## The first request/ { on = 1 } on && /^```sh$/ { n++; if (n == want) { take = 1; next } } take && /^```$/ { exit } take' "$page"
}
cd "$debs/older"
block 1 >/var/tmp/install.sh
grep -q 'apt install' /var/tmp/install.sh || fail "docs/install.md has no commands to install"
DEBIAN_FRONTEND=noninteractive sh -eux /var/tmp/install.sh </dev/null || fail "the commands of docs/install.md fail"
request() { ip netns exec client curl -sfm 20 "http://192.0.2.10/$1"; }
await 60 request ""
[ "$(request "")" = welcome ] || fail "the first request has another answer"
block 3 >/var/tmp/status.sh
sh -eux /var/tmp/status.sh || fail "the commands of docs/install.md after the first request fail"

# A session lives through a reload, a kill and an upgrade.
want=$(sha256sum </var/tmp/site/large)
# Its client reads on when all is done: a slow machine cannot be late.
{ ip netns exec client curl -sfm 3000 http://192.0.2.10/large || echo failed; } | {
	head -c 2000000
	until [ -e /var/tmp/upgraded ]; do sleep 1; done
	cat
} >/var/tmp/large &
client=$!
await 60 test -s /var/tmp/large
systemctl reload baton-router || fail "reload"
await 30 request ""
systemctl kill -s KILL baton-router
await 60 request ""
(cd "$debs/newer" && DEBIAN_FRONTEND=noninteractive dpkg -i ./baton_*.deb </dev/null) || fail "the upgrade"
await 60 request ""
touch /var/tmp/upgraded
wait $client || fail "a session did not live through reload, kill and upgrade"
[ "$(sha256sum </var/tmp/large)" = "$want" ] || fail "the download has other bytes"
baton router status -o json | grep -q test2 || fail "the version before still runs"

# Nothing is left.
systemctl stop baton-router
DEBIAN_FRONTEND=noninteractive dpkg --purge baton || fail "purge"
left=$(find /etc/baton /run/baton /var/lib/baton /sys/fs/bpf -mindepth 1 2>/dev/null | grep -i baton || true)
[ -z "$left" ] || fail "the package leaves: $left"
echo "package: all of it"
