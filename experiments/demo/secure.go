package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

// Secure is a download by TLS or QUIC, routed by the name in the client's hello.
type Secure struct {
	URL       string        `json:"url"`
	Surrogate string        `json:"surrogate"` // that answered
	Version   string        `json:"version"`   // of HTTP
	Handshake time.Duration `json:"handshake_ns"`
	Total     time.Duration `json:"total_ns"`
	Client    string        `json:"client"` // in the surrogate's access log
	Upcalls   uint64        `json:"upcalls"`
}

// http3 downloads by HTTP/3: the surrogate sees the client's own address, as its replies come back through the router.
func (d *demo) http3(ctx context.Context) error {
	d.say("HTTP/3 by name")
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	s := Secure{URL: "https://" + http3Site + secureFile}
	began := time.Now()
	response, body, err := peers.HTTP3(ctx, d.t.client, d.t.authority.Pool, netip.AddrPortFrom(netip.MustParseAddr(handoffVIP), 443), s.URL)
	if err != nil {
		return err
	}
	s.Total, s.Version, s.Surrogate = time.Since(began), fmt.Sprint(response.ProtoMajor), response.Header.Get(peers.Header)
	whole := peers.CheckPattern(bytes.NewReader(body), peers.Files[secureFile])
	err = lab.Poll(5*time.Second, func() error {
		log, err := os.ReadFile(peers.CaddyLog(d.t.caddy))
		var line struct {
			Request struct {
				Client string `json:"remote_ip"`
			} `json:"request"`
		}
		if err == nil {
			err = json.Unmarshal(bytes.TrimSpace(log), &line)
		}
		s.Client = line.Request.Client
		return err
	})
	if err != nil {
		return fmt.Errorf("read Caddy's log: %w", err)
	}
	d.report.http3(s, whole == nil)
	return nil
}

func (r *Report) http3(s Secure, whole bool) {
	r.Secure = append(r.Secure, s)
	r.check(s.Surrogate == fmt.Sprintf("s%d", http3Surrogate) && s.Client == clientAddress && s.Version == "3" && whole,
		"%s by HTTP/%s: from %s, whose log has %s", s.URL, s.Version, s.Surrogate, s.Client)
}

const secureFile = "/1m"

// secure downloads from each site by TLS. Its certificate is the surrogate's own, and the client's address is in the surrogate's log,
// although no process of the router sees a byte.
func (d *demo) secure(ctx context.Context) error {
	d.say("HTTPS by name, with the client's address in nginx's log")
	for _, name := range slices.Sorted(maps.Keys(secureSites)) {
		before, err := d.counters(ctx)
		if err != nil {
			return err
		}
		s, err := d.download(ctx, name)
		if err != nil {
			return err
		}
		after, err := d.counters(ctx)
		if err != nil {
			return err
		}
		s.Upcalls = after.since(before)["upcall"]
		d.report.https(s, name)
	}
	return nil
}

func (r *Report) https(s Secure, name string) {
	r.Secure = append(r.Secure, s)
	r.check(s.Surrogate == fmt.Sprintf("s%d", secureSites[name]) && s.Client == clientAddress && s.Upcalls == 0,
		"%s: from %s, whose log has %s; %d packets went to user space", s.URL, s.Surrogate, s.Client, s.Upcalls)
}

func (d *demo) download(ctx context.Context, name string) (s Secure, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	s.URL = "https://" + name + secureFile
	out, err := d.t.client.Exec(ctx, "curl", "-q", "-sS", "--cacert", d.t.authority.File, "--resolve", name+":443:"+handoffVIP, "-o", "/dev/null",
		"-w", "%{http_code} %{size_download} %{http_version} %{time_appconnect} %{time_total} %header{"+peers.Header+"}", s.URL)
	if err != nil {
		return s, err
	}
	var (
		status           int
		size             int64
		handshake, total float64
	)
	if _, err := fmt.Sscan(out, &status, &size, &s.Version, &handshake, &total, &s.Surrogate); err != nil || status != 200 || size != peers.Files[secureFile] {
		return s, fmt.Errorf("curl: %q", out)
	}
	s.Handshake, s.Total = time.Duration(handshake*1e9), time.Duration(total*1e9)
	err = lab.Poll(5*time.Second, func() error { // nginx logs after the response
		log, err := os.ReadFile(d.t.secureLog(secureSites[name]))
		if err != nil {
			return err
		}
		if s.Client, _, _ = strings.Cut(string(log), " "); s.Client == "" {
			return fmt.Errorf("the log of %s is empty", s.Surrogate)
		}
		return nil
	})
	return s, err
}
