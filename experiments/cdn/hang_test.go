package cdn

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/experiments/experimentstest"
	"baton/lab"
)

// A surrogate answers its checks and acknowledges requests, and what is behind it hangs. The controller counts the sessions that it has handed over to it in
// vain, and gives the next ones to another.
func TestSurrogateHangs(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Programs(t)
	edit := func(file, text string) string {
		switch file {
		case "controller.yaml":
			return strings.Replace(text, "cdn:\n", "cdn:\n  answer_timeout: 1s\n", 1)
		case "surrogate.conf":
			return strings.Replace(text, "location / {", "location /hangs { proxy_pass http://127.0.0.1:9999; }\n		location / {", 1)
		}
		return text
	}
	err := lab.Run(t.Output(), func(l *lab.Lab) error {
		n, err := Build(t.Context(), l, Options{Program: program, Examples: examples, Controller: true, Edit: edit})
		if err != nil {
			return err
		}
		if err := n.Joined(t.Context()); err != nil {
			return err
		}
		behind, err := n.Surrogates[1].Listen("tcp", "127.0.0.1:9999") // of the surrogate that is nearest to the client: takes connections, and says nothing
		if err != nil {
			return err
		}
		defer behind.Close()
		ask := func(within time.Duration) (surrogate string, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			return n.asks(ctx, "/hangs")
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if by, err := ask(4 * time.Second); err == nil {
					t.Errorf("%s answers what it cannot know", by)
				}
			})
		}
		all.Wait()
		lab.Eventually(t, patience, func() error {
			s, err := n.Counts(t.Context())
			if err != nil {
				return err
			}
			if se2 := s.Surrogates[1]; s.Reactive.Unanswered["se2"] < 5 || se2.Up || !strings.Contains(se2.Error, "acknowledged and not answered") {
				return fmt.Errorf("%d unanswered: %+v", s.Reactive.Unanswered["se2"], se2)
			}
			return nil
		})
		if by, err := ask(patience); err != nil || by != "se1" {
			t.Errorf("the next client is served by %q: %v", by, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// asks has a client ask by the reactive mode, on a connection of its own, and returns which surrogate answers.
func (n *Network) asks(ctx context.Context, path string) (surrogate string, err error) {
	client := n.Clients[0].HTTPClient(patience)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ReactiveAt+":8084"+path, nil)
	if err != nil {
		return "", err
	}
	r, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	return r.Header.Get("X-Surrogate"), nil
}
