package config

// Changed lists the changed keys that a running relay cannot apply, in the file's order: they need a restart. All others are applied while
// flows go on.
func Changed(old, next *Config) []string {
	var out []string
	for _, k := range []struct {
		key     string
		changed bool
	}{
		{"name", old.Name != next.Name},
		{"workers", old.Workers != next.Workers},
		{"metrics", old.Metrics != next.Metrics},
		{"control", old.Control != next.Control},
		{"limits.flows", old.Limits.Flows != next.Limits.Flows},
		{"limits.early", old.Limits.Early != next.Limits.Early},
		{"limits.per_source", old.Limits.PerSource != next.Limits.PerSource},
		{"limits.pipe", old.Limits.Pipe != next.Limits.Pipe},
	} {
		if k.changed {
			out = append(out, k.key)
		}
	}
	return out
}
