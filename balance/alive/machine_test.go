package alive

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// epoch is when scripts begin.
var epoch = time.Unix(1e9, 0)

// script plays "SECOND event" lines on a machine, and gives the verdicts as they become, and the seconds at which it wants to ask. It is
// ticked whenever it wants to be, as the prober does it.
func script(r Rules, lines ...string) (became []string, asked []string) {
	m := NewMachine(r, epoch)
	var now time.Time
	see := func() {
		v := m.Verdict()
		if word := strings.TrimSpace(fmt.Sprint(v.State, " ", v.URL)); len(became) == 0 || !strings.HasSuffix(became[len(became)-1], " "+word) {
			became = append(became, seconds(now)+" "+word)
		}
	}
	tick := func() {
		if m.Tick(now) {
			m.Asked(now)
			asked = append(asked, seconds(now))
		}
		see()
	}
	now = epoch
	tick()
	for _, line := range lines {
		f := strings.Fields(line)
		second, err := strconv.ParseFloat(f[0], 64)
		if err != nil {
			panic(err)
		}
		at := epoch.Add(time.Duration(second * float64(time.Second)))
		for next := m.Next(now); next.Before(at); next = m.Next(now) {
			if !next.After(now) {
				panic(fmt.Sprintf("the machine is busy at %s", seconds(now)))
			}
			now = next
			tick()
		}
		now = at
		switch f[1] {
		case "answered":
			m.Answered(now)
		case "captured":
			m.Captured(now, f[2])
		case "unanswered":
			m.Unanswered()
		case "heard":
			m.Heard(now, now)
		case "restart":
			m.Restart(now)
		case "change":
			m.Change(Rules{URL: true, Every: 5 * time.Second, Dead: 15 * time.Second}, now)
		case "end":
		default:
			panic(line)
		}
		tick()
	}
	return became, asked
}

func seconds(t time.Time) string { return strconv.FormatFloat(t.Sub(epoch).Seconds(), 'f', -1, 64) }

func TestMachine(t *testing.T) {
	gateway := Rules{Every: 5 * time.Second, Dead: 15 * time.Second}
	server := gateway
	server.URL = true
	tests := []struct {
		name   string
		rules  Rules
		script []string
		became string // comma-separated
		asked  string
	}{
		{"a gateway that answers", gateway, []string{"0.1 answered", "5.1 answered", "10.1 answered", "12 end"},
			"0 unknown, 0.1 alive", "0, 5, 10"},
		{"a gateway that never answers", gateway, []string{"21 end"}, "0 unknown, 15 dead", "0, 5, 10, 15, 20"},
		{"one that stops, and is back", gateway, []string{"0 answered", "40 answered", "41 end"},
			"0 unknown, 0 alive, 15 dead, 40 alive", "0, 5, 10, 15, 20, 25, 30, 35, 40"},
		{"an answer in time", gateway, []string{"0 answered", "14.9 answered", "29.8 end"}, "0 unknown, 0 alive", "0, 5, 10, 15, 20, 25"},
		{"traffic spares a gateway's questions", gateway, []string{"0 answered", "3 heard", "7 heard", "11 heard", "17 end"},
			"0 unknown, 0 alive", "0, 16"},
		{"traffic wakes", gateway, []string{"16 heard", "17 end"}, "0 unknown, 15 dead, 16 alive", "0, 5, 10, 15"},
		{"traffic is enough for a gateway", gateway, []string{"1 heard", "2 end"}, "0 unknown, 1 alive", "0"},
		{"a server that answers", server, []string{"0.2 answered", "5.2 answered", "6 end"}, "0 unknown, 0.2 alive", "0, 5"},
		{"a server that is slow is asked once at a time", server, []string{"9 answered", "10 end"}, "0 unknown, 9 alive", "0, 9"},
		{"a server that does not answer", server, []string{"5 unanswered", "10 unanswered", "15 unanswered", "16 end"},
			"0 unknown, 15 dead", "0, 5, 10, 15"},
		{"a portal", server, []string{"0.1 captured http://p/", "5.1 captured http://p/", "10.1 answered", "11 end"},
			"0 unknown, 0.1 portal http://p/, 10.1 alive", "0, 5, 10"},
		{"a portal that comes", server, []string{"0.1 answered", "5.1 captured http://p/", "6 end"},
			"0 unknown, 0.1 alive, 5.1 portal http://p/", "0, 5"},
		{"a portal that stops responding", server, []string{"0.1 captured http://p/", "10 unanswered", "15 unanswered", "20 end"},
			"0 unknown, 0.1 portal http://p/, 15.1 dead", "0, 5, 10, 15"},
		{"traffic does not lift a portal", server, []string{"0.1 captured http://p/", "1 heard", "6 end"},
			"0 unknown, 0.1 portal http://p/", "0, 5"},
		{"traffic is not enough before a server has answered", server, []string{"1 heard", "2 end"}, "0 unknown", "0"},
		{"traffic keeps alive when a server does not answer", server,
			append([]string{"0 answered", "6 unanswered", "10 unanswered"}, append(each(11, 40, "heard"), "41 end")...), "0 unknown, 0 alive", "0, 5, 10"},
		{"traffic spares most of a server's questions", server, append([]string{"0 answered"}, append(each(1, 70, "heard"), "71 end")...),
			"0 unknown, 0 alive", "0, 60"},
		{"restart", server, []string{"0.1 answered", "2 restart", "3 answered", "4 end"}, "0 unknown, 0.1 alive, 2 unknown, 3 alive", "0, 2"},
		{"another one is asked", gateway, []string{"0 answered", "2 change", "3 answered", "4 end"},
			"0 unknown, 0 alive, 2 unknown, 3 alive", "0, 2"},
		{"off", Rules{Off: true, Every: 5 * time.Second, Dead: 15 * time.Second}, []string{"1 captured http://p/", "100 end"}, "0 alive", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			became, asked := script(tt.rules, tt.script...)
			if got := strings.Join(became, ", "); got != tt.became {
				t.Errorf("became %s, want %s", got, tt.became)
			}
			if got := strings.Join(asked, ", "); got != tt.asked {
				t.Errorf("asked at %s, want %s", got, tt.asked)
			}
		})
	}
}

func each(from, to int, event string) (lines []string) {
	for s := from; s <= to; s++ {
		lines = append(lines, fmt.Sprint(s, " ", event))
	}
	return lines
}

func TestJudge(t *testing.T) {
	const where = "http://probe.example/204"
	tests := []struct {
		name     string
		status   int
		location string
		want     string
	}{
		{"as asked", 204, "", "alive"},
		{"portal's own page", 200, "", "portal " + where},
		{"sent to a portal", 302, "https://login.example/x?y=1", "portal https://login.example/x?y=1"},
		{"sent to a path", 307, "/login", "portal http://probe.example/login"},
		{"sent nowhere", 302, "http://[", "portal " + where},
		{"authentication required", 511, "", "portal " + where},
		{"forbidden", 403, "", "portal " + where},
		{"the server is ill", 503, "", "none"},
		{"the server is ill, and sends", 500, "http://a/", "none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := judge(where, tt.status, tt.location)
			got := "none"
			switch {
			case a.alive:
				got = "alive"
			case a.portal != "":
				got = "portal " + a.portal
			case a.err == nil:
				t.Error("no answer, and no error")
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// String returns the word of a state in the tables above.
func (s State) String() string { return [...]string{"unknown", "alive", "dead", "portal"}[s] }
