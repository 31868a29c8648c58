// Package model is an executable specification of recovery by catch-up (decision 17). Of
// the program it has stream.Apply alone (rule 6): its tests hold the other rules as a few
// functions, and run them in a random world of tables, topic-partitions, requests that are held,
// stores that are copied or lost, and processes that are killed, wait or run twice.
//
// rules_test.go has the rules, door_test.go how facts come in, attempt_test.go how rows go out,
// world_test.go the tables and the bus, model_test.go the random lives and what must hold. Each
// mutant breaks one rule, and the lives must find it.
package model
