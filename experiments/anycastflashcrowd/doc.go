// Package anycastflashcrowd asks what becomes of downloads that are under way when anycast moves them: all of them at once (figure 8 of
// Al-Qudah et al., "Anycast-Aware Transport for Content Delivery Networks"), and in a flash crowd for which a site is brought up and taken
// down again; both beside downloads that a redirect has bound to a site.
package anycastflashcrowd

import "baton/experiments"

type (
	// Turn is a contender's turn.
	Turn = experiments.Turn[*Network]
	// Contender is a way to have clients reach sites.
	Contender = experiments.Contender[*Network]
	// Measure is what is asked of it.
	Measure = experiments.Measure[*Network]
)
