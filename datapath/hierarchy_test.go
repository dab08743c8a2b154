package datapath

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCgroupDir(t *testing.T) {
	const unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw"
	tests := []struct {
		name, mounts, groups, want string
	}{
		{"unified", unified, "0::/system.slice/baton.service\n", "/sys/fs/cgroup/system.slice/baton.service"},
		{"root", unified, "0::/\n", "/sys/fs/cgroup"},
		{"hybrid", "29 28 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\n31 28 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu",
			"4:cpu:/a\n0::/b\n", "/sys/fs/cgroup/unified/b"},
		{"a part", "30 23 0:26 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "0::/pod/one\n", "/sys/fs/cgroup/one"},
		{"another part", "30 23 0:26 /pod /mnt rw - cgroup2 cgroup2 rw\n" + unified, "0::/podium\n", "/sys/fs/cgroup/podium"},
		{"outside", "30 23 0:26 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "0::/other\n", ""},
		{"not mounted", "31 28 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu", "0::/\n", ""},
		{"version 1", unified, "4:cpu:/a\n", ""},
		{"nothing", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			group, err := ownGroup(tt.groups)
			var got string
			if err == nil {
				got, err = cgroupDir(strings.Split(tt.mounts, "\n"), group)
			}
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
	group, err := OwnCgroup()
	if err != nil {
		t.Fatal(err)
	}
	var h Hierarchy
	defer h.Close()
	dir, err := h.Dir(group)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err != nil {
		t.Error(err)
	}
}
