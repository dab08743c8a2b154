package tutorials_test

import (
	"testing"

	"baton/lab"
)

func TestCIDownloads(t *testing.T) {
	l := lab.New(t)
	l.Need("nginx", "curl")
	internet := newNetwork(t, l, "internet")
	job, mirror1, mirror2 := l.Host("job"), l.Host("mirror1"), l.Host("mirror2")
	internet.join(job, "eth0", "192.0.2.10/24")
	internet.join(mirror1, "eth0", "192.0.2.1/24")
	internet.join(mirror2, "eth0", "192.0.2.2/24")
	// Without a bound a busy job's socket may hold the rest of the file when the mirror stops: nothing breaks then.
	job.Sysctl("net.ipv4.tcp_rmem", "4096 131072 4194304")
	follow(t, "ci-downloads.md", job, mirror1, mirror2)
}
