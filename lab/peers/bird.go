package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"baton/lab"
)

// Speaker is a running BIRD.
type Speaker struct {
	*lab.Process
	Version string
	Dir     string
}

// Bird starts BIRD with a configuration, to which its log is added, and returns when it is in force. A configuration
// that BIRD does not take fails the test with BIRD's own words.
func Bird(h *lab.Host, config string) *Speaker {
	t := h.Lab().T()
	t.Helper()
	h.Lab().Need("bird", "birdc")
	s := &Speaker{}
	if err := s.start(h, config); err != nil {
		t.Fatalf("peers: bird on %s: %v", h.Name(), err)
	}
	return s
}

func (s *Speaker) start(h *lab.Host, config string) (err error) {
	if s.Version, err = Version("bird"); err != nil {
		return err
	}
	if s.Dir, err = os.MkdirTemp(h.Lab().Dir(), "bird-"); err != nil {
		return err
	}
	if err := s.write(config); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readiness)
	defer cancel()
	if _, err := h.Exec(ctx, "bird", "-p", "-c", s.file()); err != nil {
		return err
	}
	s.Process, err = h.Start(lab.Program{Path: "bird", Dir: s.Dir,
		Args: []string{"-f", "-c", s.file(), "-s", s.socket(), "-P", filepath.Join(s.Dir, "bird.pid")}})
	if err != nil {
		return err
	}
	err = until(s.Process, func() error {
		out, err := s.Birdc(ctx, "show", "status")
		if err == nil && !strings.Contains(out, "Daemon is up and running") {
			err = fmt.Errorf("its status is %q", out)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, s.Log())
	}
	return nil
}

func (s *Speaker) file() string   { return filepath.Join(s.Dir, "bird.conf") }
func (s *Speaker) socket() string { return filepath.Join(s.Dir, "bird.ctl") }

func (s *Speaker) write(config string) error {
	return os.WriteFile(s.file(), []byte("log stderr all;\n"+config), 0o644)
}

// Birdc runs a command of birdc: Birdc(ctx, "show", "route").
func (s *Speaker) Birdc(ctx context.Context, command ...string) (string, error) {
	out, err := s.Host().Exec(ctx, "birdc", append([]string{"-s", s.socket()}, command...)...)
	if err != nil {
		return out, fmt.Errorf("%w %s", err, strings.TrimSpace(out)) // birdc complains on its standard output
	}
	return out, nil
}

// Configure puts another configuration in the place of the present one. BIRD keeps the sessions that it does not
// concern.
func (s *Speaker) Configure(ctx context.Context, config string) error {
	if err := s.write(config); err != nil {
		return fmt.Errorf("configure bird: %w", err)
	}
	if _, err := s.Birdc(ctx, "configure"); err != nil {
		return fmt.Errorf("configure bird: %w", err)
	}
	return nil
}
