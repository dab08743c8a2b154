#!/bin/sh
# Runs a command, such as make test, in a clone of the last commit on a clean installation of Debian that has make and git alone. It finds
# what a developer's machine hides: packages that nobody installs, versions that are too new for Debian's. As root, with mmdebstrap.
#
#   packaging/clean-root.sh SUITE FOLDER COMMAND...
#   packaging/clean-root.sh bookworm /var/tmp/clean make test
#
# FOLDER needs 15 GB. It is made if it is missing, and used again with the commit of today if it is there. KEEP names files of this machine
# that the installation gets too, such as authorities and settings of a proxy. Only processes and the network are this machine's.
set -eu
[ $# -ge 3 ] || {
	sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
	exit 2
}
suite=$1 root=$2
shift 2
source=$(cd "$(dirname "$0")/.." && pwd)
if [ ! -e "$root/root/baton" ]; then
	mmdebstrap --variant=minbase --include=make,git,ca-certificates "$suite" "$root"
	git clone -q "$source" "$root/root/baton"
fi
git -C "$root/root/baton" fetch -q "$source" HEAD
git -C "$root/root/baton" reset -q --hard FETCH_HEAD
for file in /etc/resolv.conf ${KEEP:-}; do
	mkdir -p "$root$(dirname "$file")"
	cp -a "$(readlink -f "$file")" "$root$file"
done
# pivot_root, as programs that look for the mount of a path do not find it in a chroot.
exec unshare --mount --propagation=private sh -ec '
root=$1
shift
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
cd "$root"
mkdir -p .old
pivot_root . .old
umount -l /.old
cd /root/baton
HOME=/root exec "$@"
' sh "$(readlink -f "$root")" "$@"
