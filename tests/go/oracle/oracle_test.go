// Package oracle drives the originals, client-go's workqueue and controller-runtime's priority queue, in time that
// passes only when the driver says so: one line of JSON asks, one line answers, any number of sequences a process.
package oracle

import (
	"encoding/json"
	"os"
	"testing"
	"testing/synctest"
)

// TestOracle is the program: time is fake only in a bubble, and a bubble needs a test around it.
func TestOracle(t *testing.T) {
	commands, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var begin command
		if commands.Decode(&begin) != nil {
			os.Exit(0) // the driver ended
		}
		synctest.Test(t, func(t *testing.T) { run(begin, commands, answers) })
	}
}

// run serves one sequence. To read is not to block durably: while the driver thinks, no time passes.
func run(begin command, commands *json.Decoder, answers *json.Encoder) {
	sequence, err := newSequence(begin)
	if err != nil {
		answers.Encode(answer{Error: err.Error()})
		return
	}
	for next := begin; ; {
		answers.Encode(sequence.do(next))
		if next.Op == "end" {
			return
		}
		next = command{}
		if commands.Decode(&next) != nil {
			os.Exit(0)
		}
	}
}
