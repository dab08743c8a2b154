package dashboard

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"
)

func TestPageComesBackAfterTheController(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	p := open(t, s, "sessions", desk, "WebSocket connection to", "net::ERR_CONNECTION_REFUSED")
	p.sees("live", "10.0.1.2:41017")
	announced := func() string { return eval[string](p, `document.querySelector("[role=status].unseen").textContent`) }
	p.until("announces the connection", func() bool { return announced() == "Connected to the controller." })

	s.stop()
	p.sees("not connected", "What you see is of", "Next attempt in", "10.0.1.2:41017")
	p.until("announces the loss", func() bool { return announced() == "The connection was lost." })
	p.sees("The controller cannot be reached.")

	s.set(func(s *script) {
		s.state["sessions"] = sessions(time.Now())[:1]
		s.state["handoffs"] = nil
	})
	s.start()
	p.sees("live", "1 sessions", "10.0.1.1:41000") // by itself
	if text := p.text(); strings.Contains(text, "10.0.1.2:41017") || strings.Contains(text, "not connected") {
		t.Errorf("the page shows what was before: %s", text)
	}
}

func TestPersonDoesNotWaitForTheBackOff(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	p := open(t, s, "sessions", desk, "WebSocket connection to", "net::ERR_CONNECTION_REFUSED")
	p.sees("live")
	s.stop()
	p.until("waits for seconds", func() bool { return strings.Contains(p.text(), "Next attempt in 4 s") })
	s.start()
	began := time.Now()
	p.click("Connect now")
	p.sees("live")
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestConnectionsThatEndSayWhy(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	p := open(t, s, "sessions", desk, "WebSocket connection to")
	for _, c := range []struct {
		end   func(*websocket.Conn)
		shows string
	}{
		{func(c *websocket.Conn) { _ = c.Close(4008, "events were not read fast enough") }, "This page was too slow for the events."},
		{func(c *websocket.Conn) { _ = c.Close(websocket.StatusGoingAway, "another controller is the master") }, "another controller is the master"},
		{func(c *websocket.Conn) { _ = c.Write(context.Background(), websocket.MessageText, []byte("{")) }, "something that is not JSON"},
	} {
		p.sees("live")
		eval[bool](p, `(window.said = "", new MutationObserver(() => { said += document.body.innerText; }).observe(document.body, { subtree: true, childList: true, characterData: true }), true)`)
		s.each(c.end)
		p.until("shows "+c.shows, func() bool { return strings.Contains(eval[string](p, `said`), c.shows) })
	}
	p.sees("live", "10.0.1.2:41017")
}

func TestTokenIsAskedForAndForgotten(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	const token = "Žltý kôň 7+/=?"
	s.token = token
	p := open(t, s, "sessions", desk, "WebSocket connection to", "401")
	p.sees("The controller wants a token")
	if text := p.text(); strings.Contains(text, "10.0.1") {
		t.Errorf("data without a token: %s", text)
	}
	if got := eval[string](p, `document.activeElement.type`); got != "password" {
		t.Errorf("the focus is on %q", got)
	}
	p.fill("input[type=password]", "wrong")
	p.click("Connect")
	p.sees("The controller does not accept this token.")
	p.fill("input[type=password]", token)
	p.click("Connect")
	p.sees("live", "10.0.1.2:41017")

	kept := eval[[]string](p, `[JSON.stringify({ ...localStorage }), document.cookie, location.href, String(Object.values({ ...sessionStorage }).length)]`)
	if kept[0] != "{}" || kept[1] != "" || !strings.HasSuffix(kept[2], s.address+"/#/sessions") || kept[3] != "1" {
		t.Errorf("the token is kept in %q", kept)
	}
	p.run(chromedp.Reload())
	p.sees("live", "10.0.1.2:41017") // the tab has it still

	s.set(func(s *script) { s.token = "another" })
	s.each(func(c *websocket.Conn) { _ = c.Close(websocket.StatusPolicyViolation, "the token was withdrawn") })
	p.sees("The controller wants a token", "The controller does not accept this token.")
}

func TestPauseHoldsChanges(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	p := open(t, s, "handoffs", desk)
	p.sees("Handoff 17")
	p.click("Pause")
	p.sees("Paused")
	s.send("handoffs", handoff(18, time.Now()))
	p.until("counts what it holds", func() bool { return !strings.Contains(p.text(), "Paused: 0 changes") })
	if text := p.text(); strings.Contains(text, "Handoff 18") {
		t.Errorf("the pause lets changes through: %s", text)
	}
	p.click("Paused")
	p.sees("Handoff 18")
}

func TestAnnouncementsAreFew(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	p := open(t, s, "handoffs", desk)
	p.sees("Handoff 17")
	eval[bool](p, `(window.said = [], new MutationObserver(() => said.push(document.querySelector("[role=status].unseen").textContent))
		.observe(document.querySelector("[role=status].unseen"), { subtree: true, childList: true, characterData: true }), true)`)
	for id := uint64(18); id < 48; id++ {
		s.send("handoffs", handoff(id, time.Now()))
		time.Sleep(100 * time.Millisecond)
	}
	p.sees("Handoff 47")
	if said := eval[[]string](p, `said`); len(said) > 2 {
		t.Errorf("30 handoffs in 3 s were announced by %q", said)
	}
}

func TestControllerWithSomeTopicsOnly(t *testing.T) {
	state := scenario(time.Now())
	delete(state, "rates")
	s := newScript(t, state)
	s.missing = "rates"
	p := open(t, s, "rates", desk)
	p.sees("live", "This controller does not report rates.", "Live sessions 7", "Handoffs 0/s", "se1 214")
}

func TestOneBrokenViewLeavesTheOthers(t *testing.T) {
	state := scenario(time.Now())
	state["decisions"] = []map[string]any{{"time": time.Now(), "because": 3}}
	s := newScript(t, state)
	p := open(t, s, "decisions", desk)
	p.sees("This view cannot show what the controller has sent")
	p.click("Handoffs")
	p.sees("Handoff 17")
}
