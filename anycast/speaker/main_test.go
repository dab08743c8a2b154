package speaker_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"baton/anycast/config"
	"baton/anycast/level"
	"baton/anycast/speaker"
)

// asSpeaker has the test binary run a speaker in a lab's host: sessions of a process are in one network namespace.
const asSpeaker = "BATON_TEST_SPEAKER"

// task is what such a process is given.
type task struct {
	BGP      config.BGP
	Prefixes []netip.Prefix
}

func TestMain(m *testing.M) {
	if text := os.Getenv(asSpeaker); text != "" {
		if err := speak(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // they wait for timers of routers, and use little of the processors
	os.Exit(m.Run())
}

// speak announces what each line of its input says, until SIGTERM or the end of it. An empty file of input ends it too.
func speak(text string) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	s, err := speaker.New(t.BGP, t.Prefixes, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	lines := make(chan level.Announcement)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			var a level.Announcement
			if err := json.Unmarshal(in.Bytes(), &a); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			lines <- a
		}
	}()
	for {
		select {
		case <-stop:
			return s.Close()
		case a, more := <-lines:
			if !more {
				return s.Close()
			}
			if err := s.Announce(a); err != nil {
				return err
			}
		}
	}
}
