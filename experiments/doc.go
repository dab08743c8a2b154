// Package experiments puts one question to several contenders on the same machine, in the same run, and keeps everything that
// was seen. An experiment is data (Experiment) and a few functions: Build makes the topology, a contender's Start brings it up, a
// measure's Take yields one Sample. The loop, the processor time, the statistics, results.json, plots and report are here.
//
//	experiment   a question, and all of the below
//	case         a point of the grid of parameters: a round-trip time, a number of sessions
//	contender    one way of doing it; the first is the baseline
//	measure      what is asked of every contender in every case: a name and a unit
//	round        every contender's turn in every case, once
//	sample       one measure of one contender in one case and round
//
// Contenders take turns inside a case (A B C, A B C), so that what changes on the machine meets all of them.
package experiments
