package dashboard

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "write screenshots of the scripted controller to this folder")

// TestScreenshots makes the pictures of the documentation: go test ./dashboard -run TestScreenshots -screenshots ../docs/dashboard
func TestScreenshots(t *testing.T) {
	folder := *screenshots
	if folder == "" {
		folder = t.TempDir() // that they can be made is tested anyway
	}
	s := newScript(t, scenario(time.Now()))
	shots := []struct {
		name, view, shows string
		look              look
	}{
		{"overview", "overview", "transit-1", desk},
		{"overview-dark", "overview", "transit-1", dark(desk)},
		{"overview-telephone", "overview", "transit-1", telephone},
		{"topology", "topology/10.0.1.2:41017%2010.0.0.10:80", "Shortest path", desk},
		{"topology-telephone-dark", "topology/10.0.1.2:41017%2010.0.0.10:80", "Shortest path", dark(telephone)},
		{"sessions", "sessions", "10.0.1.3", desk},
		{"sessions-telephone", "sessions", "10.0.1.3", telephone},
		{"handoffs", "handoffs", "flow mod 5", desk},
		{"handoffs-dark", "handoffs", "flow mod 5", dark(desk)},
		{"handoffs-telephone", "handoffs", "flow mod 5", telephone},
		{"handoff-failed", "handoffs/15", "Failed:", desk},
		{"rates", "rates", "Packet-ins", desk},
		{"surrogates", "surrogates", "connection refused", desk},
		{"decisions", "decisions", "no coverage zone", desk},
		{"decisions-telephone-dark", "decisions", "no coverage zone", dark(telephone)},
	}
	for _, shot := range shots {
		t.Run(shot.name, func(t *testing.T) {
			shot.look.still = true // no arrow that is about to appear
			p := open(t, s, shot.view, shot.look)
			p.sees(shot.shows)
			p.until("has data", func() bool { return !strings.Contains(p.text(), "no data") })
			picture := value(p, chromedp.FullScreenshot(100))
			if err := os.WriteFile(filepath.Join(folder, shot.name+".png"), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func dark(l look) look {
	l.dark = true
	return l
}
