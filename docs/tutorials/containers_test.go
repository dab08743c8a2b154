package tutorials_test

import (
	"testing"

	"baton/lab"
)

func TestContainers(t *testing.T) {
	l := lab.New(t)
	l.Need("podman", "crun", "busybox", "curl")
	client, host := l.Host("client"), l.Host("host")
	l.Link(lab.End{Host: client, Name: "eth0", Addrs: []string{"198.51.100.2/24"}},
		lab.End{Host: host, Name: "eth0", Addrs: []string{"198.51.100.1/24"}}, lab.LinkOptions{})
	ownFiles(t, host)
	// A lab's host has no systemd, and may stand on a file system that podman cannot put its own upon. crun does not want the first version of control groups.
	const script = `mount -t cgroup2 none /sys/fs/cgroup
printf '[containers]\ncgroups = "disabled"\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n' >/etc/containers/containers.conf
printf '[storage]\ndriver = "vfs"\nrunroot = "/run/containers/storage"\ngraphroot = "/srv/containers"\n' >/etc/containers/storage.conf`
	run(t, host, script)
	follow(t, "containers.md", client, host)
}
