package resume_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"baton/resume"
	"baton/resume/part"
	"baton/resume/state"
)

// downloadInto is what the process does that is killed: it goes on with a file, or begins it.
func downloadInto(ctx context.Context, o resume.Options, url, path string) error {
	f, err := state.Open(path, state.Options{Continue: true, Offset: -1, Wanted: part.Fresh(), URL: url, Every: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	have, _, _ := f.Begun()
	_, err = resume.NewClient(o).Download(ctx, resume.Request{URLs: []string{url}, Have: have}, f, nil, f.Kept())
	if err != nil {
		f.Close()
		return err
	}
	return f.Finish()
}

// TestMain is the process to kill, if the environment says so.
func TestMain(m *testing.M) {
	if url := os.Getenv("BATON_TEST_DOWNLOAD"); url != "" {
		if err := downloadInto(context.Background(), quick(), url, os.Getenv("BATON_TEST_FILE")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // most of the time they wait
		panic(err)
	}
	os.Exit(m.Run())
}

// TestKill kills the process at random, again and again: the one that goes on has the right bytes in the end, and has not begun again.
func TestKill(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	file := body(3, 3<<20)
	slowly := func(c *exchange) bool {
		content := c.begin()
		for n := 0; n < len(content); n += 8 << 10 {
			if _, err := c.Write(content[n:min(len(content), n+8<<10)]); err != nil {
				return false
			}
			time.Sleep(time.Millisecond)
		}
		return true
	}
	server := newOrigin(t, file, slowly, resetAfter(100_000), slowly)
	path := filepath.Join(t.TempDir(), "f")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for killed := 0; ; killed++ {
		c := exec.Command(program)
		c.Env = append(os.Environ(), "BATON_TEST_DOWNLOAD="+server.url, "BATON_TEST_FILE="+path)
		c.Stderr = t.Output()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		life := 20 * time.Second
		if killed < 12 {
			life = time.Duration(random.IntN(120)) * time.Millisecond
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, file)
			resumed := 0
			for _, r := range server.requests() {
				if r.Header.Get("If-Range") == `"one"` {
					resumed++
				}
			}
			if resumed < 2 {
				t.Errorf("%d requests went on with what there was", resumed)
			}
			return
		case <-time.After(life):
			c.Process.Kill()
			<-ended
			if killed == 12 {
				t.Fatal("it takes for ever")
			}
			if b, err := os.ReadFile(path); err == nil { // nothing is there under its name before it is whole
				same(t, b, file)
				return // it was killed behind its work
			}
		}
	}
}
