package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/lab"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	protocol "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long the page may take for anything.
const patience = 30 * time.Second

// chromium is one for all tests; each has a context of its own in it, with its own storage.
var chromium = sync.OnceValues(func() (context.Context, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-component-update", true), chromedp.ExecPath("chromium"))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	quit = func() { cancel(); stop() }
	return ctx, chromedp.Do(ctx)
})

var quit = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	quit()
	os.Exit(code)
}

// need skips the test without a program, unless tests may not be skipped.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if lab.Required() {
		t.Fatalf("%s is required here and not installed: run make deps", program)
	}
	t.Skipf("SKIP ring 4 (lab): %s is not installed: run make deps", program)
}

// page is a tab of Chromium with the dashboard.
type page struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	troubles []string
	expected []string // parts of troubles that the test provokes
}

// look is how the page is looked at.
type look struct {
	width, height int
	dark, still   bool
	zone          string
	before        string // a script that runs before those of the page
}

var (
	desk      = look{width: 1280, height: 900}
	telephone = look{width: 360, height: 740}
)

// open opens a view. What the page logs as an error, throws, or loads from elsewhere fails the test when it ends, but for what is expected.
func open(t *testing.T, s *script, view string, l look, expected ...string) *page {
	t.Helper()
	need(t, "chromium")
	browser, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	p := &page{t: t, expected: expected}
	origin := "http://" + s.address + "/"
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(func(event any) { p.watch(origin, event) }))
	p.ctx = ctx
	t.Cleanup(func() {
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, trouble := range p.troubles {
			t.Errorf("the browser reports: %s", trouble)
		}
	})
	if err := chromedp.Do(ctx); err != nil { // without a deadline, which would be the tab's
		t.Fatal(err)
	}
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: map[bool]string{false: "light", true: "dark"}[l.dark]}}
	if l.still {
		features = append(features, &emulation.MediaFeature{Name: "prefers-reduced-motion", Value: "reduce"})
	}
	p.run(
		command(network.Enable, network.EnableParams{}), command(runtime.Enable, cdp.Empty{}), command(log.Enable, cdp.Empty{}),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}),
		command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: int64(l.width), Height: int64(l.height), DeviceScaleFactor: 1, Mobile: l.width < 500,
		}),
		command(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: cmp.Or(l.zone, "Europe/Bratislava")}),
		command(protocol.AddScriptToEvaluateOnNewDocument, protocol.AddScriptToEvaluateOnNewDocumentParams{Source: l.before}),
		chromedp.Navigate(origin+"#/"+view))
	return p
}

// command is an action of the DevTools protocol whose answer does not matter.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (p *page) watch(origin string, event any) {
	var trouble string
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			trouble = fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		trouble = "exception: " + e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			trouble += " " + x.Description
		}
	case *runtime.EventConsoleAPICalled:
		trouble = fmt.Sprintf("console.%s %s", e.Type, e.Args[0].Value)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, origin) {
			trouble = "a request to " + e.Request.URL
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.expected {
		if strings.Contains(trouble, x) {
			return
		}
	}
	if trouble != "" {
		p.troubles = append(p.troubles, trouble)
	}
}

func (p *page) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// eval has the page compute something; %s in the script are arguments as JavaScript.
func eval[T any](p *page, script string, arguments ...any) T {
	p.t.Helper()
	for i, a := range arguments {
		text, err := json.Marshal(a)
		if err != nil {
			p.t.Fatal(err)
		}
		arguments[i] = string(text)
	}
	if len(arguments) > 0 {
		script = fmt.Sprintf(script, arguments...)
	}
	return value(p, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// value runs an action that has a result.
func value[T any](p *page, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		p.t.Fatal(err)
	}
	return result
}

// text is what a person can read, with single blanks.
func (p *page) text() string {
	p.t.Helper()
	return eval[string](p, `document.body.innerText.replace(/\s+/g, " ")`)
}

// sees waits until the page shows all texts.
func (p *page) sees(texts ...string) {
	p.t.Helper()
	p.until("shows "+strings.Join(texts, ", "), func() bool {
		all := p.text()
		for _, t := range texts {
			if !strings.Contains(all, t) {
				return false
			}
		}
		return true
	})
}

// until waits for a condition.
func (p *page) until(what string, ok func() bool) {
	p.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("the page never %s; it shows: %s", what, p.text())
		}
	}
}

// click clicks the visible button, link, or label with a text.
func (p *page) click(text string) {
	p.t.Helper()
	ok := eval[bool](p, `(() => {
		const all = [...document.querySelectorAll("button, a, label, summary, [role=button]")];
		const e = all.find((e) => e.checkVisibility() && (e.innerText ?? e.textContent).replace(/\s+/g, " ").trim() === %s);
		e?.click();
		return e !== undefined;
	})()`, text)
	if !ok {
		p.t.Fatalf("there is no %q to click; the page shows: %s", text, p.text())
	}
}

// fill types into a field as a person does: the page hears of it.
func (p *page) fill(selector, text string) {
	p.t.Helper()
	p.until("has "+selector, func() bool { return eval[bool](p, `document.querySelector(%s) !== null`, selector) })
	eval[bool](p, `((e) => {
		e.focus();
		e.value = %[2]s;
		return e.dispatchEvent(new InputEvent("input", { bubbles: true }));
	})(document.querySelector(%[1]s))`, selector, text)
}

// choose selects an option of the field with a label.
func (p *page) choose(label, option string) {
	p.t.Helper()
	eval[bool](p, `(() => {
		const e = [...document.querySelectorAll("label")].find((l) => l.textContent.startsWith(%s)).querySelector("select");
		e.value = [...e.options].find((o) => o.text === %s).value;
		return e.dispatchEvent(new Event("change", { bubbles: true }));
	})()`, label, option)
}
