package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
	"baton/lab/peers"
)

// request is one of the demo's downloads.
type request struct {
	path    string
	file    string // of the site, see peers.Files
	pool    string // whose surrogates must answer
	decides string // byKernel or byRouter: who reads the request
	runs    int    // timed ones, by each way
}

const (
	byKernel = "kernel"
	byRouter = "router"
)

var requests = []request{
	{path: "/128", file: "/128", pool: "default", decides: byKernel, runs: 15},
	{path: "/video/1m", file: "/1m", pool: "video", decides: byKernel, runs: 15},
	{path: "/clips/1m.mp4", file: "/1m", pool: "video", decides: byRouter, runs: 15}, // a regular expression
	{path: "/video/100m", file: "/100m", pool: "video", decides: byKernel, runs: 5},
	{path: "/1g", file: "/1g", pool: "default", decides: byKernel, runs: 5},
}

func (r request) url() string { return "http://" + site + r.path }
func (r request) size() int64 { return peers.Files[r.file] }

// The ways, by name.
const (
	viaDirect   = "direct"
	handoff     = "handoff"
	viaRedirect = "redirect"
	viaHAProxy  = "haproxy"
)

// way is a way for a request to reach a surrogate.
type way struct {
	name    string
	address func(r request, run int) string // that the client connects to
	follow  bool                            // a 302 is followed
	process *lab.Process                    // in user space on the router, nil for none
}

func vip(address string) func(request, int) string {
	return func(request, int) string { return address }
}

// direct takes the surrogates of a pool by turns, as a client would that knew them.
func direct(r request, run int) string {
	var pool []string
	for n, name := range poolOf {
		if name == r.pool {
			pool = append(pool, address(n))
		}
	}
	return pool[run%len(pool)]
}

// hashedEachTime is the largest body, in bytes, that fits the pipe to the hash and so takes no time of the client's.
const hashedEachTime = 1 << 20

// fetchTimeout is generous: the machine may be loaded.
const fetchTimeout = 2 * time.Minute

// fetch has curl make the request. With hash the body's SHA-256 is returned, else it goes to /dev/null.
func fetch(ctx context.Context, client *lab.Host, w way, r request, run int, hash bool) (_ peers.Transfer, sum string, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	args := []string{"--resolve", site + ":80:" + w.address(r, run), r.url()}
	if w.follow {
		args = append(args, "-L")
	}
	if !hash {
		got, err := peers.Curl(ctx, client, append(args, "-o", "/dev/null")...)
		return got, "", err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return peers.Transfer{}, "", err
	}
	defer out.Close()
	defer in.Close()
	if _, err := unix.FcntlInt(in.Fd(), unix.F_SETPIPE_SZ, hashedEachTime); err != nil {
		return peers.Transfer{}, "", fmt.Errorf("widen the pipe: %w", err)
	}
	h, done := sha256.New(), make(chan error, 1)
	go func() {
		_, err := io.Copy(h, out)
		done <- err
	}()
	got, err := peers.Curl(ctx, client, append(args, "-o", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), in.Fd()))...)
	in.Close()
	if copied := <-done; err == nil {
		err = copied
	}
	return got, hex.EncodeToString(h.Sum(nil)), err
}

// originSums are the SHA-256 of the requests' files, by name.
func originSums(ctx context.Context, dir string, requests []request) (map[string]string, error) {
	sums := make(map[string]string)
	for _, r := range requests {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if sums[r.file] != "" {
			continue
		}
		f, err := os.Open(filepath.Join(dir, r.file))
		if err != nil {
			return nil, fmt.Errorf("hash the site: %w", err)
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("hash the site: %w", err)
		}
		sums[r.file] = hex.EncodeToString(h.Sum(nil))
	}
	return sums, nil
}

// oneConnection has one curl make several requests on one connection. It returns who answered each, and how many
// connections curl opened.
func oneConnection(ctx context.Context, client *lab.Host, paths []string) (answered []string, connections int, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	args := []string{"-q", "-sS", "--resolve", site + ":80:" + handoffVIP, "-w", "%{http_code} %{num_connects} %header{" + peers.Header + "}\n"}
	for _, p := range paths {
		args = append(args, "-o", "/dev/null", "http://"+site+p)
	}
	out, err := client.Exec(ctx, "curl", args...)
	if err != nil {
		return nil, 0, err
	}
	for line := range strings.Lines(out) {
		var (
			status, opened int
			surrogate      string
		)
		if _, err := fmt.Sscan(line, &status, &opened, &surrogate); err != nil || status != 200 {
			return nil, 0, fmt.Errorf("curl on one connection: %q", out)
		}
		answered = append(answered, surrogate)
		connections += opened
	}
	return answered, connections, nil
}

// inPool tells whether every surrogate is one of the pool's.
func inPool(pool string, answered []string) bool {
	return !slices.ContainsFunc(answered, func(name string) bool {
		var n int
		_, err := fmt.Sscanf(name, "s%d", &n)
		return err != nil || n < 1 || n >= len(poolOf) || poolOf[n] != pool
	})
}
