package dashboard

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/api"

	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "write screenshots of the scripted controller to this folder")

// TestScreenshots makes the pictures of the documentation: go test ./dashboard -run TestScreenshots -screenshots ../docs/dashboard
func TestScreenshots(t *testing.T) {
	folder := *screenshots
	if folder == "" {
		folder = t.TempDir() // that they can be made is tested anyway
	}
	// The repository keeps those that the document shows.
	shown, err := os.ReadFile("../docs/dashboard.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newScript(t, scenario(time.Now()))
	const path = "topology/10.0.1.2:41017%2010.0.0.10:80"
	shots := []struct {
		name, view, shows string
		look              look
	}{
		{"overview", "overview", "transit-1", desk},
		{"overview-dark", "overview", "transit-1", dark(desk)},
		{"overview-telephone", "overview", "transit-1", telephone},
		{"topology", path, "Shortest path", desk},
		{"topology-telephone-dark", path, "Shortest path", dark(telephone)},
		{"sessions", "sessions", "10.0.1.3", desk},
		{"sessions-telephone", "sessions", "10.0.1.3", telephone},
		{"handoff", "handoffs", "flow mod 5", desk},
		{"handoff-dark", "handoffs", "flow mod 5", dark(desk)},
		{"handoff-telephone", "handoffs", "flow mod 5", telephone},
		{"handoff-failed", "handoffs/15", "Failed:", desk},
		{"rates", "rates", "Packet-ins", desk},
		{"surrogates", "surrogates", "Change …", desk},
		{"decisions", "decisions", "no coverage zone", desk},
	}
	for _, shot := range shots {
		t.Run(shot.name, func(t *testing.T) {
			shot.look.still = true // no arrow that is about to appear
			charts := *screenshots != "" && (strings.HasPrefix(shot.name, "overview") || shot.name == "rates")
			if charts {
				shot.look.before = fast
			}
			p := open(t, s, shot.view, shot.look)
			p.sees(shot.shows)
			if charts {
				day(s)
			}
			p.until("has data", func() bool { return !strings.Contains(p.text(), "no data") })
			picture := value(p, chromedp.FullScreenshot(100))
			if *screenshots != "" && !bytes.Contains(shown, []byte("dashboard/"+shot.name+".png")) {
				return
			}
			if err := os.WriteFile(filepath.Join(folder, shot.name+".png"), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// fast has five minutes pass in three seconds, until the clock is right: charts show what a page has seen since it was opened.
const fast = `{
	const real = Date.now.bind(Date), start = real(), interval = setInterval;
	Date.now = () => Math.min(real(), start - 300_000 + (real() - start) * 100);
	window.setInterval = (f, ms) => interval(f, ms === 1000 ? 10 : ms);
}`

// day sends what changes in that time. It ends with what the scenario has.
func day(s *script) {
	list := sessions(time.Now())
	for i := range 60 {
		for k, one := range surrogates() {
			if i < 59 {
				one.Sessions = max(0, one.Sessions*(30+i+(i*i+7*k)%11)/100)
			}
			s.send("surrogates", one)
		}
		one := list[i%len(list)]
		if i < 50 && i%3 == 0 {
			one.State = api.ControllerClosed
		}
		s.send("sessions", one)
		time.Sleep(50 * time.Millisecond)
	}
}

func dark(l look) look {
	l.dark = true
	return l
}
