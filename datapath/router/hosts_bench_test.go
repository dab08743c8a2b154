package router

import (
	"fmt"
	"path/filepath"
	"testing"

	"baton/datapath"
	"baton/datapath/kerneltest"
)

// BenchmarkPutHosts replaces tables with 100,000 hosts by others with as many.
func BenchmarkPutHosts(b *testing.B) {
	kerneltest.Need(b)
	const hosts = 100000
	o := Options{
		State: filepath.Join(datapath.BPFFS, "baton-bench"), Sessions: testSessions, Pending: testPending, Legs: testLegs,
		Hosts: 2 * hosts,
	}
	r, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		r.Close()
		_ = Remove(o.State)
	}()
	t := numbered(families[0], false)
	for i := range hosts {
		t.Hosts = append(t.Hosts, Host{VIP: 3, Name: fmt.Sprintf("h%d.example.net", i), ID: uint16(1 + i%2)})
	}
	for b.Loop() {
		if err := r.SetTables(t); err != nil {
			b.Fatal(err)
		}
	}
	if info, err := r.maps.Hosts.Info(); err == nil {
		if bytes, ok := info.Memlock(); ok {
			b.ReportMetric(float64(bytes)/hosts, "B/host")
		}
	}
}
