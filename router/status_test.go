package router

import (
	"testing"

	"baton/router/legs"
)

func TestExplainPlaces(t *testing.T) {
	if got := explainPlaces(legs.Places{Used: 8, Limit: 8}); got != nil {
		t.Errorf("without a shortage: %q", got)
	}
	const want = "now        no place: the table of sessions is full (limits.sessions: 8); " +
		"clients that find no idle leg are proxied"
	if got := explainPlaces(legs.Places{Used: 8, Limit: 8, Full: true}); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}
