package guest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChooseRelease(t *testing.T) {
	all := []release{
		{"6.12.107+deb13-cloud-amd64", true}, {"6.12.118+deb13-cloud-amd64", true}, {"6.18.9+deb13-cloud-amd64", false},
		{"6.18.15+deb13-cloud-amd64", false}, {"7.3.4+deb13-cloud-amd64", false},
	}
	for name, want := range map[string]string{
		"trixie": "6.12.118+deb13-cloud-amd64", "trixie-backports": "7.3.4+deb13-cloud-amd64", "newest": "7.3.4+deb13-cloud-amd64",
		"6.12": "6.12.118+deb13-cloud-amd64", "6.18": "6.18.15+deb13-cloud-amd64", "6.12.107+deb13-cloud-amd64": "6.12.107+deb13-cloud-amd64",
		"6.1": "", "6": "", "bookworm": "",
	} {
		got, err := chooseRelease(all, name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
}

// TestCompleteKernels: one whose modules are not there cannot be booted.
func TestCompleteKernels(t *testing.T) {
	packages := strings.Fields("linux-image-6.18.15+deb13-cloud-amd64 linux-image-6.18.15+deb13-amd64 linux-image-7.0.13+deb13-cloud-amd64 " +
		"linux-binary-7.0.13+deb13-cloud-amd64 linux-image-7.3.4+deb13-cloud-amd64 linux-binary-7.3.4+deb13-cloud-amd64 linux-modules-7.3.4+deb13-cloud-amd64")
	got := completeKernels(packages, regexp.MustCompile(`^linux-image-(.*-cloud-amd64)$`))
	if d := cmp.Diff([]string{"6.18.15+deb13-cloud-amd64", "7.3.4+deb13-cloud-amd64"}, got); d != "" {
		t.Error(d)
	}
}

func TestCompareVersions(t *testing.T) {
	for _, pair := range [][2]string{
		{"6.12.9+deb13-cloud-amd64", "6.12.107+deb13-cloud-amd64"}, {"6.9.1+deb13-amd64", "6.12.1+deb13-amd64"}, {"6.19.14+deb13-amd64", "7.0.4+deb13-amd64"},
	} {
		if compareVersions(pair[0], pair[1]) >= 0 || compareVersions(pair[1], pair[0]) <= 0 {
			t.Errorf("%s is not before %s", pair[0], pair[1])
		}
	}
}

func TestLoadOrder(t *testing.T) {
	const dependencies = `kernel/drivers/block/virtio_blk.ko.xz: kernel/drivers/virtio/virtio.ko.xz kernel/drivers/virtio/virtio_ring.ko.xz
kernel/drivers/virtio/virtio.ko.xz: kernel/drivers/virtio/virtio_ring.ko.xz
kernel/drivers/virtio/virtio_ring.ko.xz:
kernel/fs/ext4/ext4.ko: kernel/lib/crc16.ko
kernel/lib/crc16.ko:
`
	want := []string{
		"kernel/drivers/virtio/virtio_ring.ko.xz", "kernel/drivers/virtio/virtio.ko.xz", "kernel/drivers/block/virtio_blk.ko.xz",
		"kernel/lib/crc16.ko", "kernel/fs/ext4/ext4.ko",
	}
	if d := cmp.Diff(want, loadOrder(dependencies, []string{"virtio_pci", "virtio_blk", "ext4"})); d != "" {
		t.Error(d)
	}
}
