package packages_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/lab"
)

// TestDebian13 is TestDebian on the release after it.
func TestDebian13(t *testing.T) { debianLife(t, debian13) }

// TestParts starts every part by its unit, with the packaged example as far as it fits the host, and upgrades below them: all come back as the version
// after, but for those that wait for the operator.
func TestParts(t *testing.T) {
	s := newSite(t, debian13)
	before, after := makePackages(t, older, usual), makePackages(t, newer, "deb")
	s.put(one(t, before, "baton_*.deb"), one(t, before, "baton-cdn_*.deb"), one(t, after, "baton_*.deb"), one(t, after, "baton-cdn_*.deb"))
	s.do("apt-get -y -q install /root/*_" + older + "_*.deb")
	s.do(`for i in 1 2; do
	ip link add port$i type veth peer name far$i && ip link set port$i up && ip link set far$i up
	ip link add up$i type veth peer name isp$i && ip addr add 203.0.113.$((i * 16))/28 dev up$i && ip link set up$i up && ip link set isp$i up
	ip route add default via 203.0.113.$((i * 16 + 1)) metric $i
done
sed -i 's/eth1, eth2/port1, port2/; s/^controllers.*/fail_mode: standalone/' /etc/baton/forwarder.yaml
sed -i 's/eth0, wlan0/up1, up2/' /etc/baton/balance.yaml`)
	upgraded, left := []string{"router", "balance", "purge", "controller", "nameserver"}, []string{"forwarder", "relay", "anycast"}
	all := slices.Concat(upgraded, left)
	was := map[string]string{}
	for _, part := range all {
		s.do("systemctl enable --now baton-" + part)
		s.runs(t, part, older)
		was[part] = s.pid(part)
	}
	rules := s.do("ip rule")
	out := s.do("dpkg -i /root/*_" + newer + "_*.deb")
	if strings.Contains(out, "warning") {
		t.Errorf("the upgrade warns:\n%s", out)
	}
	for _, part := range upgraded {
		s.runs(t, part, newer)
		if s.pid(part) == was[part] {
			t.Errorf("%s was not restarted", part)
		}
	}
	for _, part := range left {
		if s.pid(part) != was[part] || !strings.Contains(out, "systemctl restart baton-"+part) {
			t.Errorf("%s: process %s, was %s; the operator is told:\n%s", part, s.pid(part), was[part], out)
		}
		s.do("systemctl restart baton-" + part)
		s.runs(t, part, newer)
	}
	if got := s.do("ip rule"); got != rules {
		t.Errorf("the balance's rules were\n%s\nand are\n%s", rules, got)
	}
	s.do("apt-get -y -q purge baton baton-cdn")
	if left := s.do("ip rule | grep 300 || true; ls -A /sys/fs/bpf | grep -v debug || true; ip -br link | grep -E '^(bal|baton|loop-)' || true"); left != "" {
		t.Errorf("left:\n%s", left)
	}
}

func (s *site) pid(part string) string {
	return strings.TrimSpace(s.do("systemctl show -P MainPID baton-" + part))
}

// runs waits until a part's process is of a version.
func (s *site) runs(t *testing.T, part, version string) {
	t.Helper()
	program := "baton"
	if slices.Contains(parts["baton-cdn"], part) {
		program = "baton-cdn"
	}
	lab.Eventually(t, 20*time.Second, func() error {
		out, err := s.try(program + " " + part + " status -o json")
		var status struct{ Version string }
		if err != nil || json.Unmarshal([]byte(out), &status) != nil || status.Version != version {
			log, _ := s.try("journalctl --no-pager -n 20 -u baton-" + part)
			return fmt.Errorf("%s is version %q, want %q; %v\n%s\n%s", part, status.Version, version, err, out, log)
		}
		return nil
	})
}

// TestRPM installs, upgrades and removes the rpm packages with rpm's own tool in a root with systemd. A Debian root has no packages of rpm's that could meet
// dependencies, so they are not checked there; what the package asks for is.
func TestRPM(t *testing.T) {
	withRPM := debian12
	withRPM.include += ",rpm"
	s := newSite(t, withRPM)
	before, after := makePackages(t, older, "rpm"), makePackages(t, newer, "rpm")
	for _, dir := range []string{before, after} {
		s.put(one(t, dir, "baton-0*.rpm"), one(t, dir, "baton-cdn-0*.rpm"))
	}
	if got := s.do("rpm -qp --requires /root/baton-" + older + "*.rpm"); strings.TrimSpace(got) != "systemd" {
		t.Errorf("the package asks for %q", got)
	}
	s.do("mkdir -p /var/lib/rpm && rpm --initdb")
	out := s.do("rpm -i --nodeps /root/*" + older + "*.rpm")
	if !strings.Contains(out, "nothing is started yet") {
		t.Errorf("the installation says:\n%s", out)
	}
	s.do("rpm -V --nodeps baton baton-cdn; systemctl list-units --no-legend 'baton-*' | grep . && exit 1; true")
	s.do(strings.Join(strings.Split(block(t, installPage, "The first request", 1), "\n")[1:], "\n"))
	lab.Eventually(t, 20*time.Second, func() error { return s.get("/128") })
	s.upgrade(t, "rpm -U --nodeps /root/*"+newer+"*.rpm")
	use := s.holdSpliced(t)
	s.do("rpm -e --nodeps baton baton-cdn")
	if use() == nil {
		t.Error("a session goes on without the program")
	}
	if left := s.do("ls -A /sys/fs/bpf | grep -v debug || true; ls /usr/bin/baton* /etc/systemd/system/multi-user.target.wants/baton* 2>/dev/null || true"); left != "" {
		t.Errorf("left: %s", left)
	}
	s.do("grep s2 /etc/baton/router.yaml.rpmsave")
}

// TestOtherProcessor runs the program for the other processor, and checks that its packages are for it.
func TestOtherProcessor(t *testing.T) {
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	emulator, err := exec.LookPath(map[string]string{"arm64": "qemu-aarch64-static", "amd64": "qemu-x86_64-static"}[other])
	if err != nil {
		t.Skip("SKIP: no emulator of the other processor: packaging/deps.sh installs it")
	}
	dir := filepath.Join(made, other)
	packageInto(t, dir, "BATON_VERSION="+older, "ARCHES="+other, "FORMATS=deb")
	for _, package_ := range []string{"baton", "baton-cdn"} {
		deb := one(t, dir, package_+"_*.deb")
		if got, err := exec.Command("dpkg-deb", "-f", deb, "Architecture").Output(); err != nil || strings.TrimSpace(string(got)) != other {
			t.Errorf("%s is for %s, %v", deb, got, err)
		}
		root := t.TempDir()
		if out, err := exec.Command("dpkg-deb", "-x", deb, root).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if out, err := exec.Command(emulator, filepath.Join(root, "usr/bin", package_), "version").CombinedOutput(); err != nil || string(out) != package_+" "+older+"\n" {
			t.Errorf("%s version: %v\n%s", package_, err, out)
		}
		part := parts[package_][0]
		if out, err := exec.Command(emulator, filepath.Join(root, "usr/bin", package_), part, "check", "-c", filepath.Join(root, "etc/baton", part+".yaml")).CombinedOutput(); err != nil {
			t.Errorf("%s %s check: %v\n%s", package_, part, err, out)
		}
	}
}

// TestSameBytes builds everything twice, from two folders and without what the first build has left in caches: all files are the same.
func TestSameBytes(t *testing.T) {
	sums := func(cache string) string {
		tree := filepath.Join(t.TempDir(), "tree")
		if out, err := exec.Command("git", "clone", "-q", "--no-hardlinks", "../..", tree).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd := exec.Command("packaging/package.sh")
		cmd.Dir = tree
		cmd.Env = append(os.Environ(), "GOCACHE="+cache)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make packages: %v\n%s", err, out)
		}
		check := exec.Command("sha256sum", "-c", "--quiet", "SHA256SUMS")
		check.Dir = filepath.Join(tree, "dist")
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		text, err := os.ReadFile(filepath.Join(tree, "dist/SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	usual, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	first, second := sums(strings.TrimSpace(string(usual))), sums(t.TempDir())
	if first != second || strings.Count(first, "\n") != 16 {
		t.Errorf("the first build has\n%s\nthe second\n%s", first, second)
	}
}
