// Package model is an executable specification of recovery by catch-up (decision 17). Of the
// program it has catchup.Apply alone (rule 6): its tests hold the other rules as a few functions,
// and run them in a random world of tables, topic-partitions, requests that are held, stores that
// are copied or lost, and processes that are killed or run twice.
//
// rules_test.go has the rules, process_test.go who calls them when, world_test.go the tables and
// the bus, model_test.go the random runs and what must hold afterwards. Each mutant breaks one
// rule, and the runs must find it. What implements a rule is to be tested with the same cases.
package model
