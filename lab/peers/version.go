package peers

import (
	"fmt"
	"os/exec"
	"regexp"
)

// programs print their versions in different formats.
var programs = []struct {
	name    string
	args    []string
	pattern *regexp.Regexp
}{
	{"nginx", []string{"-v"}, regexp.MustCompile(`nginx/(\S+)`)},
	{"apache2", []string{"-v"}, regexp.MustCompile(`Apache/(\S+)`)},
	{"caddy", []string{"version"}, regexp.MustCompile(`v?(\d\S+)`)},
	{"varnishd", []string{"-V"}, regexp.MustCompile(`varnish-(\S+)`)},
	{"haproxy", []string{"-v"}, regexp.MustCompile(`version (\S+)`)},
	{"socat", []string{"-V"}, regexp.MustCompile(`socat version (\S+)`)},
	{"ssh", []string{"-V"}, regexp.MustCompile(`OpenSSH_([^\s,]+)`)},
	{"iperf3", []string{"--version"}, regexp.MustCompile(`iperf (\S+)`)},
	{"ovs-vswitchd", []string{"--version"}, regexp.MustCompile(`\(Open vSwitch\) (\S+)`)},
	{"bird", []string{"--version"}, regexp.MustCompile(`BIRD version (\S+)`)},
	{frrFolder + "/bgpd", []string{"--version"}, regexp.MustCompile(`bgpd version (\S+)`)},
	{"curl", []string{"--version"}, regexp.MustCompile(`curl (\S+)`)},
	{"wget", []string{"--version"}, regexp.MustCompile(`GNU Wget (\S+)`)},
	{"aria2c", []string{"--version"}, regexp.MustCompile(`aria2 version (\S+)`)},
	{"ab", []string{"-V"}, regexp.MustCompile(`ApacheBench, Version (\S+)`)},
	{"wrk", []string{"-v"}, regexp.MustCompile(`wrk (\S+)`)},
	{"etcd", []string{"--version"}, regexp.MustCompile(`etcd Version: (\S+)`)},
	{"nsd", []string{"-v"}, regexp.MustCompile(`NSD version (\S+)`)},
	{"knotd", []string{"--version"}, regexp.MustCompile(`Knot DNS(?:\), version)? (\S+)`)},
	{"chromium", []string{"--version"}, regexp.MustCompile(`Chromium (\S+)`)},
}

// Version returns what a program of this package says of itself: "nginx/1.22.1".
func Version(program string) (string, error) {
	for _, p := range programs {
		if p.name != program {
			continue
		}
		said, err := exec.Command(p.name, p.args...).CombinedOutput() // wrk names its version and fails
		if version := p.pattern.FindSubmatch(said); version != nil {
			return program + "/" + string(version[1]), nil
		}
		return "", fmt.Errorf("version of %s: it says %q (%v)", program, said, err)
	}
	return "", fmt.Errorf("version of %s: it is not one of the peers", program)
}

// Versions returns those of the programs of this package that are installed.
func Versions() []string {
	var found []string
	for _, p := range programs {
		if _, err := exec.LookPath(p.name); err != nil {
			continue
		}
		if v, err := Version(p.name); err == nil {
			found = append(found, v)
		}
	}
	return found
}
