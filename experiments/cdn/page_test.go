package cdn

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"baton/experiments/experimentstest"
	"baton/lab"
)

// The controller's page shows, in Chromium, what happens in the network: its switches, sessions, handoffs with their steps, surrogates and decisions.
func TestPageOfTheController(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Programs(t)
	err := lab.Run(t.Output(), func(l *lab.Lab) error {
		l.Need("chromium")
		n, err := Build(t.Context(), l, Options{Program: program, Examples: examples, Controller: true, OpenVSwitch: true})
		if err != nil {
			return err
		}
		r := &Report{}
		if err := n.visit(t.Context(), r); err != nil {
			return err
		}
		for _, c := range r.Checks {
			if !c.OK {
				t.Errorf("%s: %s", c.Text, c.Said)
			}
		}
		browser, stop := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.Flag("disable-dev-shm-usage", true), chromedp.ExecPath("chromium"))...)
		defer stop()
		tab, closed := chromedp.NewContext(browser)
		defer closed()
		if err := chromedp.Do(tab, chromedp.Navigate(n.Page+"#/topology")); err != nil {
			return err
		}
		const login = `(() => {
			const e = document.querySelector("input[type=password]");
			if (e === null) return false;
			e.focus();
			e.value = %q;
			e.dispatchEvent(new InputEvent("input", { bubbles: true }));
			return true;
		})()`
		const connect = `[...document.querySelectorAll("button")].find((b) => b.innerText.trim() === "Connect").click() ?? true`
		lab.Eventually(t, patience, func() error {
			ok, err := evaluate[bool](tab, fmt.Sprintf(login, n.Token))
			if err == nil && !ok {
				err = fmt.Errorf("the page does not ask for a token")
			}
			return err
		})
		if _, err := evaluate[bool](tab, connect); err != nil {
			return err
		}
		for _, view := range []struct {
			hash string
			want []string
		}{
			{"topology", []string{"live", "s1", "s3", "se1", "se2"}},
			{"handoffs", []string{"10.11.0.101", "GET /images/02.png", "setrequestsize", "flow mod 2", "flow mod 5", "barrier reply"}},
			{"surrogates", []string{"se1", "se2", "10.11.0.12:80"}},
			{"decisions", []string{"10.11.0.102", "/images/02.png"}},
		} {
			if _, err := evaluate[string](tab, fmt.Sprintf("location.hash = %q", "#/"+view.hash)); err != nil {
				return err
			}
			lab.Eventually(t, patience, func() error {
				text, err := evaluate[string](tab, `document.body.innerText.replace(/\s+/g, " ")`)
				for _, w := range view.want {
					if err == nil && !strings.Contains(text, w) {
						err = fmt.Errorf("%s does not show %q: %s", view.hash, w, text)
					}
				}
				return err
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// evaluate has the page compute something.
func evaluate[T any](tab context.Context, script string) (T, error) {
	ctx, cancel := context.WithTimeout(tab, 10*time.Second)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](script))
}
