package config

import (
	"strings"
	"testing"
)

// TestNumbersAsPeopleWriteThem: an AS has its letters or not, a share its percent sign.
func TestNumbersAsPeopleWriteThem(t *testing.T) {
	cfg, err := Parse("f", []byte(strings.Replace(least, "as: 64512", "as: AS64512", 1)))
	if err != nil || cfg.Site.BGP.AS != 64512 {
		t.Errorf("AS64512: %+v, %v", cfg, err)
	}
	text := strings.Replace(least, "  checks:", "  levels: [{name: a}, {name: b, enter: %s, leave: 40%}]\n  checks:", 1)
	cfg, err = Parse("f", []byte(strings.Replace(text, "%s", "50%", 1)))
	if err != nil || cfg.Site.Control.Ladder[1].Enter != 0.5 || cfg.Site.Control.Ladder[1].Leave != 0.4 {
		t.Errorf("50%%: %+v, %v", cfg, err)
	}
	if cfg, err = Parse("f", []byte(strings.Replace(text, "%s", "50 %", 1))); err != nil || cfg.Site.Control.Ladder[1].Enter != 0.5 {
		t.Errorf("50 %%: %+v, %v", cfg, err)
	}
	if _, err = Parse("f", []byte(strings.Replace(text, "%s", "0.5", 1))); err == nil || !strings.Contains(err.Error(), `"0.5" has no percent sign (from 1% to 10000%)`) {
		t.Errorf("0.5: %v", err)
	}
}
