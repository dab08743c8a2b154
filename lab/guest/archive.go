package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Suite is the Debian release of the guests' roots; kernels are those of its archive, its updates and its backports.
const Suite = "trixie"

// Flavour is a flavour of Debian's kernels.
type Flavour string

// The cloud flavour is smaller, but has no drivers of real network cards.
const (
	Cloud Flavour = "cloud"
	Plain Flavour = "plain"
)

// infix is what the names of a flavour's packages have before the architecture.
func (f Flavour) infix() string {
	if f == Plain {
		return ""
	}
	return string(f) + "-"
}

// freshLists is how old package lists may be. Older versions of a series disappear from the archive.
const freshLists = 24 * time.Hour

// archive is Debian's archive as apt sees it through lists of this cache's own, for one architecture.
type archive struct {
	dir  string
	arch string // Debian's name: amd64, arm64
}

// release is a kernel package: its version and where it comes from.
type release struct {
	version string // as uname -r gives it: 6.12.118+deb13-cloud-amd64
	own     bool   // of the suite itself, not of its backports
}

// openArchive brings the package lists up to date. An archive that cannot be reached is an error only without lists.
func (c *Cache) openArchive(ctx context.Context, arch string) (*archive, error) {
	a := &archive{dir: filepath.Join(c.dir, "apt-"+arch), arch: arch}
	if err := os.MkdirAll(filepath.Join(a.dir, "lists/partial"), 0o755); err != nil {
		return nil, err
	}
	unlock, err := lockFile(ctx, a.dir+".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()
	stamp := filepath.Join(a.dir, "fresh")
	st, err := os.Stat(stamp)
	if err == nil && time.Since(st.ModTime()) < freshLists {
		return a, nil
	}
	known := err == nil
	if err := a.writeSources(ctx); err != nil {
		return nil, err
	}
	if err := runTool(ctx, "apt-get", a.options("update", "-qq")...); err != nil {
		if known {
			return a, nil
		}
		return nil, fmt.Errorf("read the package lists of Debian's archive: %w", err)
	}
	return a, os.WriteFile(stamp, nil, 0o644)
}

// writeSources names the archive that this machine's apt uses.
func (a *archive) writeSources(ctx context.Context) error {
	mirror, security, err := mirrors(ctx)
	if err != nil {
		return err
	}
	const key = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
	var text strings.Builder
	for _, suite := range []string{Suite, Suite + "-updates", Suite + "-backports"} {
		fmt.Fprintf(&text, "deb %s %s %s main\n", key, mirror, suite)
	}
	fmt.Fprintf(&text, "deb %s %s %s-security main\n", key, security, Suite)
	return os.WriteFile(filepath.Join(a.dir, "sources.list"), []byte(text.String()), 0o644)
}

// mirrors returns the addresses of Debian's archive and of its security updates that this machine's apt uses.
func mirrors(ctx context.Context) (mirror, security string, err error) {
	mirror, security = "http://deb.debian.org/debian", "http://deb.debian.org/debian-security"
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)").Output()
	if err != nil {
		return "", "", fmt.Errorf("ask apt for its archive: %w", err)
	}
	for uri := range strings.FieldsSeq(string(out)) {
		switch uri = strings.TrimSuffix(uri, "/"); {
		case strings.HasSuffix(uri, "/debian"):
			mirror = uri
		case strings.HasSuffix(uri, "/debian-security"):
			security = uri
		}
	}
	return mirror, security, nil
}

// options keep apt away from this machine's own lists and packages.
func (a *archive) options(args ...string) []string {
	own := []string{
		"Dir::Etc::sourcelist=" + a.dir + "/sources.list", "Dir::Etc::sourceparts=/dev/null", "Dir::State::Lists=" + a.dir + "/lists",
		"Dir::Cache=" + a.dir, "Dir::State::status=/dev/null", "APT::Architecture=" + a.arch, "APT::Architectures=" + a.arch, "APT::Sandbox::User=root",
	}
	var all []string
	for _, o := range own {
		all = append(all, "-o", o)
	}
	return append(all, args...)
}

// releases returns the kernels of a flavour, oldest first: those whose packages are all there. Of some series the modules have gone before the
// rest.
func (a *archive) releases(ctx context.Context, flavour Flavour) ([]release, error) {
	out, err := exec.CommandContext(ctx, "apt-cache", a.options("pkgnames", "linux-")...).Output()
	if err != nil {
		return nil, fmt.Errorf("list the kernels of Debian's archive: %w", err)
	}
	name := regexp.MustCompile(`^linux-image-(\d+\.\d+\.\d+\+deb\d+-` + flavour.infix() + a.arch + `)$`)
	found := completeKernels(strings.Fields(string(out)), name)
	if len(found) == 0 {
		return nil, errors.New("list the kernels of Debian's archive: there are none")
	}
	slices.SortFunc(found, compareVersions)
	own, err := a.ownSeries(ctx, flavour)
	if err != nil {
		return nil, err
	}
	var all []release
	for _, v := range found {
		all = append(all, release{version: v, own: Series(v) == own})
	}
	return all, nil
}

// completeKernels returns the versions that name finds in a list of packages. From 6.19 on an image has its kernel and modules in packages of
// their own.
func completeKernels(packages []string, name *regexp.Regexp) (found []string) {
	there := map[string]bool{}
	for _, p := range packages {
		there[p] = true
	}
	for _, p := range packages {
		m := name.FindStringSubmatch(p)
		if m != nil && (there["linux-modules-"+m[1]] || !there["linux-binary-"+m[1]]) {
			found = append(found, m[1])
		}
	}
	return found
}

// ownSeries is the series of the suite's own kernel: the one that its meta package depends on.
func (a *archive) ownSeries(ctx context.Context, flavour Flavour) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-cache", a.options("show", "--no-all-versions", "-t", Suite, "linux-image-"+flavour.infix()+a.arch+"/"+Suite)...).Output()
	if err == nil {
		if m := regexp.MustCompile(`(?m)^Version: (\d+\.\d+)`).FindSubmatch(out); m != nil {
			return string(m[1]), nil
		}
	}
	return "", fmt.Errorf("find the kernel of %s itself: %w", Suite, err)
}

// Series is a kernel's first two numbers: 6.12 of 6.12.118+deb13-cloud-amd64.
func Series(version string) string {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	return first + "." + second
}

// compareVersions orders kernel versions by their numbers.
func compareVersions(a, b string) int {
	numbers := regexp.MustCompile(`\d+`)
	x, y := numbers.FindAllString(a, 3), numbers.FindAllString(b, 3)
	for i := range min(len(x), len(y)) {
		m, _ := strconv.Atoi(x[i])
		n, _ := strconv.Atoi(y[i])
		if m != n {
			return m - n
		}
	}
	return strings.Compare(a, b)
}

// chooseRelease returns the newest kernel that a name means: "trixie" the suite's own, "trixie-backports" or "newest" the newest of all,
// "6.12" the newest of a series, or a whole version.
func chooseRelease(all []release, name string) (string, error) {
	for _, r := range slices.Backward(all) {
		switch {
		case name == Suite && r.own, name == Suite+"-backports", name == "newest", name == Series(r.version), name == r.version:
			return r.version, nil
		}
	}
	var series []string
	for _, r := range all {
		series = append(series, Series(r.version))
	}
	return "", fmt.Errorf("there is no kernel %q in Debian's archive; it has %s, %s and newest", name, strings.Join(slices.Compact(series), ", "), Suite)
}

// download fetches packages into a folder.
func (a *archive) download(ctx context.Context, dir string, packages ...string) error {
	args := a.options(append([]string{"download", "-qq"}, packages...)...)
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("download %s: %w\n%s", strings.Join(packages, ", "), err, lastLines(string(out), 5))
	}
	return nil
}

// has reports whether the archive has a package.
func (a *archive) has(ctx context.Context, name string) bool {
	out, err := exec.CommandContext(ctx, "apt-cache", a.options("pkgnames", name)...).Output()
	return err == nil && slices.Contains(strings.Fields(string(out)), name)
}
