package lab

// Try calls f, in which builders may fail, and returns the error of the one that has: for labs of Run that change while
// they live. In a test a builder that fails ends the test.
func Try(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			stop, ours := v.(abort)
			if !ours {
				panic(v)
			}
			err = stop.err
		}
	}()
	f()
	return nil
}
