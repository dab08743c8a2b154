// Package experiments puts one question to several contenders on the same machine, in the same run, and keeps all samples. An experiment is
// data (Experiment) and a few functions: Build makes the topology, a contender's Start starts it, a measure's Take returns one Sample. The
// loop, the CPU time, the statistics, results.json, plots and the report are here.
//
//	experiment   a question, and all of the below
//	case         a point of the parameter grid: a round-trip time, a number of sessions
//	contender    one way of doing it; the first is the baseline
//	measure      a measured quantity, the same for every contender and case: a name and a unit
//	round        every contender's turn in every case, once
//	sample       one measure of one contender in one case and round
//
// Contenders alternate within a case (A B C, A B C), so that changes on the machine affect
// all of them.
package experiments
