package dashboard

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"baton/api"
)

// views are all views, with something selected where that is possible, and a text that each shows when it is there.
var views = map[string]string{
	"overview":                               "Last handoffs",
	"topology":                               "As text",
	"topology/10.0.1.2:41017%2010.0.0.10:80": "Shortest path",
	"sessions":                               "10.0.1.3:41034",
	"handoffs":                               "Handoff 17",
	"handoffs/15":                            "table full",
	"rates":                                  "Packet-ins",
	"surrogates":                             "connection refused",
	"decisions":                              "no coverage zone",
}

func (p *page) press(keys string, options ...chromedp.KeyOption) {
	p.t.Helper()
	p.run(chromedp.KeyEvent(keys, options...))
}

func TestKeyboardReachesEverything(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	for view, shows := range views {
		t.Run(view, func(t *testing.T) {
			p := open(t, s, view, desk)
			p.sees(shows)
			// What can be operated and is not in the walk is missing; but of radio buttons and of the drawing one part alone is.
			missing := eval[int](p, `(() => {
				window.left = new Set([...document.querySelectorAll("a, button, input, select, summary, [tabindex='0']")].filter((e) => e.checkVisibility() && !e.disabled));
				return left.size;
			})()`)
			if missing < 10 {
				t.Fatalf("there are %d things to operate", missing)
			}
			for range missing + 3 {
				p.press(kb.Tab)
				fault := eval[string](p, `(() => {
					const e = document.activeElement;
					if (e === document.body) return "";
					left.delete(e);
					const r = e.getBoundingClientRect(), style = getComputedStyle(e);
					if (r.width === 0 || r.bottom < 0 || r.top > innerHeight) return "invisible: " + e.outerHTML.slice(0, 200);
					const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
					const ringed = e.matches("rect.hit") && style.stroke !== "none";
					return outlined || ringed ? "" : "without a visible focus: " + e.outerHTML.slice(0, 200);
				})()`)
				if fault != "" {
					t.Error(fault)
				}
			}
			if rest := eval[[]string](p, `[...left].filter((e) => e.isConnected).map((e) => e.outerHTML.slice(0, 120))`); len(rest) > 0 {
				t.Errorf("the keyboard does not reach %q", rest)
			}
		})
	}
}

func TestKeyboardOperates(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	p := open(t, s, "topology", desk)
	p.sees("transit-1")
	focus := func() string {
		return eval[string](p, `document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent`)
	}

	// Arrow keys walk through the drawing, Enter opens a switch.
	eval[bool](p, `(document.querySelector("rect.hit[tabindex='0']").focus(), true)`)
	p.press(kb.ArrowRight)
	p.press(kb.ArrowRight)
	if got := focus(); got != "core, core switch, up; hosts: router router, surrogate se1, surrogate se2" {
		t.Errorf("the focus is on %q", got)
	}
	p.press(kb.Enter)
	p.sees("Datapath", "0000000000000003", "Flow entries")

	// Another view takes the focus to its heading.
	p.click("Handoffs")
	p.sees("Handoff 17")
	if got := focus(); got != "Handoffs" {
		t.Errorf("the focus is on %q", got)
	}
	eval[bool](p, `(document.querySelector("input[type=range]").focus(), true)`)
	p.press(kb.ArrowLeft)
	p.press(kb.ArrowLeft)
	p.sees("Step 22 of 24")
	if n := len(p.arrows()); n != 22 {
		t.Errorf("%d arrows", n)
	}
}

func TestSurrogateIsChangedByKeyboard(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	p := open(t, s, "surrogates", desk)
	p.sees("4 surrogates, 2 in service", "Change …")
	eval[bool](p, `(document.querySelector("[aria-label='Change se1 …']").focus(), true)`)
	p.press(kb.Enter)
	p.sees("Change se1", "maintenance: gets no new sessions")
	p.press(kb.ArrowDown) // the state's radio buttons have the focus
	p.press(kb.Tab)
	p.press("a", chromedp.KeyModifiers(kb.ModifierCtrl))
	p.press("25")
	p.press(kb.Enter)
	p.sees("State: in-service → maintenance", "Weight: 100 → 25", "Its 214 sessions go on")
	if n := len(s.asked()); n != 0 {
		t.Fatalf("%d changes before the confirmation", n)
	}
	p.press(kb.Enter) // Apply has the focus
	p.sees("4 surrogates, 1 in service")
	asked := s.asked()
	if len(asked) != 1 || asked[0].Name != "se1" || *asked[0].Change.Weight != 25 || *asked[0].Change.State != "maintenance" {
		t.Fatalf("the controller was asked for %+v", asked)
	}
	if got := eval[string](p, `document.activeElement.getAttribute("aria-label")`); got != "Change se1 …" {
		t.Errorf("the focus is on %q", got)
	}

	// The last one; then a refusal; then Escape, which changes nothing.
	eval[bool](p, `(document.querySelector("[aria-label='Change se2 …']").click(), true)`)
	p.press(kb.ArrowDown)
	p.click("Continue")
	p.sees("No other surrogate is in service.")
	s.set(func(s *script) { s.refuse = "the controller has no quorum" })
	p.click("Apply")
	p.sees("the controller has no quorum", "Change se2")
	p.press(kb.Escape)
	p.until("closes the dialog", func() bool { return !eval[bool](p, `document.querySelector("dialog")?.open ?? false`) })
	if n := len(s.asked()); n != 1 {
		t.Errorf("%d changes", n)
	}
}

func TestViewersChangeNothing(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	s.role = "viewer"
	p := open(t, s, "surrogates", desk)
	p.sees("Only an operator's token may change them.")
	if strings.Contains(p.text(), "Change") {
		t.Errorf("a viewer is offered a change: %s", p.text())
	}
}

func TestTelephone(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	for view, shows := range views {
		t.Run(view, func(t *testing.T) {
			p := open(t, s, view, telephone)
			p.sees(shows)
			wide := eval[[]string](p, `[...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && !e.closest(".unseen, .skip")
				&& (e.getBoundingClientRect().right > innerWidth + 0.5 || e.getBoundingClientRect().left < -0.5)).map((e) => e.outerHTML.slice(0, 150))`)
			if len(wide) > 0 {
				t.Errorf("outside of the screen: %q", wide)
			}
			if got := eval[int](p, `document.scrollingElement.scrollWidth`); got > telephone.width {
				t.Errorf("the page is %d pixels wide", got)
			}
			small := eval[[]string](p, `[...document.querySelectorAll("button, select, input, nav a")].filter((e) => e.checkVisibility() && !e.closest(".unseen, .skip"))
				.filter((e) => e.getBoundingClientRect().height < 17).map((e) => e.outerHTML.slice(0, 150))`)
			if len(small) > 0 {
				t.Errorf("too small for a finger: %q", small)
			}
		})
	}
}

// contrasts are texts with too little contrast to what is behind them. Text in drawings stands on the nearest box that is painted before it.
const contrasts = `(() => {
	const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return { rgb: m.slice(0, 3), a: m[3] ?? 1 }; };
	const over = (top, below) => top.rgb.map((v, i) => v * top.a + below[i] * (1 - top.a));
	const luminance = (rgb) => { const [r, g, b] = rgb.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const behind = (e) => {
		const layers = [];
		for (let at = e; at; at = at.parentElement) {
			layers.push(parse(getComputedStyle(at).backgroundColor));
			const box = e.closest("svg") && at.querySelector?.(":scope > rect.box, :scope > rect.participant");
			if (box && !e.closest(".host") && !(e.closest(".cell") && e.getBoundingClientRect().top > box.getBoundingClientRect().bottom)) layers.push(parse(getComputedStyle(box).fill));
		}
		return layers.reverse().reduce((below, l) => over(l, below), [255, 255, 255]);
	};
	const bad = [];
	let seen = 0;
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		const e = walker.currentNode.parentElement;
		if (!walker.currentNode.textContent.trim() || !e.checkVisibility() || e.closest(":disabled, title, .unseen, .skip, option")) continue;
		const style = getComputedStyle(e);
		const back = behind(e), front = over(parse(e.closest("svg") ? style.fill : style.color), back);
		const [a, b] = [luminance(front), luminance(back)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		seen++;
		if (ratio < 4.5) bad.push(ratio.toFixed(2) + " " + walker.currentNode.textContent.slice(0, 40) + " in " + e.outerHTML.slice(0, 100));
	}
	if (seen < 20) bad.push("only " + seen + " texts were found");
	return bad;
})()`

func TestContrastAndAxe(t *testing.T) {
	needPackages(t)
	axe, err := os.ReadFile("web/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	s := newScript(t, scenario(time.Now()))
	for view, shows := range views {
		for _, l := range []look{desk, dark(desk), dark(telephone)} {
			t.Run(fmt.Sprintf("%s/dark=%v/%d", view, l.dark, l.width), func(t *testing.T) {
				l.still = true
				p := open(t, s, view, l)
				p.sees(shows)
				if bad := eval[[]string](p, contrasts); len(bad) > 0 {
					t.Errorf("contrast: %s", strings.Join(bad, "\n"))
				}
				p.axe(string(axe))
			})
		}
	}
	t.Run("dialog", func(t *testing.T) {
		p := open(t, s, "surrogates", dark(desk))
		p.sees("Change …")
		p.click("Change …")
		p.sees("Change se1")
		p.axe(string(axe))
	})
}

// axe runs all rules of axe-core but those for whole sites.
func (p *page) axe(source string) {
	p.t.Helper()
	p.run(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := chromedp.Evaluate[bool](source+";true")(ctx, target)
		return err
	}))
	found := eval[[]string](p, `axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.map((v) => v.id + ": " + v.help + "\n  " + v.nodes.map((n) => n.html + " " + n.failureSummary).join("\n  ")))`)
	for _, f := range found {
		p.t.Errorf("axe: %s", f)
	}
}

func TestReducedMotionHasNone(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	for still, want := range map[bool]bool{true: false, false: true} {
		l := desk
		l.still = still
		p := open(t, s, "handoffs", l)
		p.sees("Handoff 17")
		if got := eval[bool](p, `getComputedStyle(document.querySelector("g.arrow.last")).animationName !== "none"`); got != want {
			t.Errorf("with reduced motion %v, it moves: %v", still, got)
		}
	}
}

func TestHostileNamesAreText(t *testing.T) {
	state := scenario(time.Now())
	const hostile = `<img src=x onerror="document.title='hacked'">`
	long := strings.Repeat("W", 3000)
	topology := line(3, time.Now())
	topology.Switches[0].Name, topology.Switches[1].Name = hostile, long
	topology.Switches[2].Maker = `"><script>document.title='hacked'</script>`
	topology.Hosts[0].Name, topology.Hosts[1].Name = hostile, long
	topology.Hosts[3].Kind = "__proto__"
	all := surrogates()
	all[0].Name, all[1].Name, all[2].Error = hostile, "__proto__", hostile
	all[1].Site = long
	all[3].Name = "constructor"
	h := handoff(20, time.Now())
	h.Request, h.Failure, h.Surrogate = hostile, hostile+long, "__proto__"
	h.Steps[0].Label, h.Steps[1].Kind, h.Steps[2].From, h.Steps[3].Label = hostile, "constructor", "__proto__", long
	one := sessions(time.Now())
	one[0].Surrogate, one[1].State = hostile, "toString"
	state["topology"], state["surrogates"], state["sessions"], state["handoffs"] = topology, all, one, []api.ControllerHandoff{h}
	state["decisions"] = []api.RoutingDecision{{Time: time.Now(), Method: hostile, Client: netip.MustParseAddr("10.0.1.1"), Name: long, Path: hostile, Because: []string{hostile, long}}}
	s := newScript(t, state)
	for view, shows := range map[string]string{
		"overview": hostile, "topology": "<img src=x onerr…", "sessions": hostile, "handoffs": hostile, "surrogates": hostile, "decisions": hostile, "rates": hostile,
	} {
		for _, l := range []look{desk, telephone} {
			t.Run(fmt.Sprintf("%s/%d", view, l.width), func(t *testing.T) {
				p := open(t, s, view, l)
				p.sees(shows)
				if got := eval[string](p, `document.title + document.querySelectorAll("#app img, #app script").length`); !strings.HasSuffix(got, "– Baton controller0") {
					t.Errorf("a name has become HTML: %s", got)
				}
				if got := eval[int](p, `document.scrollingElement.scrollWidth`); got > l.width {
					t.Errorf("the page is %d pixels wide", got)
				}
			})
		}
	}
}
