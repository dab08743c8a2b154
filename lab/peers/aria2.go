package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"baton/lab"
)

// Download is what aria2 has fetched.
type Download struct {
	Bytes int64
	Time  time.Duration // from the program's start to its end
	File  string
}

// Aria2 fetches a URL into a file with aria2, in pieces over so many connections to the server (16 at most).
func Aria2(ctx context.Context, h *lab.Host, connections int, url, file string, args ...string) (Download, error) {
	h.Lab().Need("aria2c")
	n := strconv.Itoa(connections)
	begin := time.Now()
	// A piece is a MiB, where aria2's own 20 MiB would leave most files of the site in one; the rest keeps it silent, and
	// from preparing the file.
	_, err := h.Exec(ctx, "aria2c", append([]string{"--no-conf", "--no-netrc", "--quiet", "--split=" + n, "--max-connection-per-server=" + n,
		"--min-split-size=1M", "--file-allocation=none", "--allow-overwrite", "--auto-file-renaming=false",
		"--dir=" + filepath.Dir(file), "--out=" + filepath.Base(file), url}, args...)...)
	d := Download{Time: time.Since(begin), File: file}
	if err != nil {
		return d, err
	}
	st, err := os.Stat(file)
	if err != nil {
		return d, fmt.Errorf("aria2: %w", err)
	}
	d.Bytes = st.Size()
	return d, nil
}
