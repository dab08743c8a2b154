package endhost

import "baton/experiments"

var _ experiments.Claim

// contenders are those of figures 6 to 9.
func contenders() []Contender { return []Contender{oneLink(), ideal(), oracle(), ecmp(), multipath()} }
