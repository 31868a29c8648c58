// Package cli is the frame of bridge's command line. A table says what a line may hold; the parser,
// the help, the completion of the shells and the manual page are made of it, so they cannot differ.
// It prints and runs nothing: cmd/bridge has the table, its texts, and a function for each command.
//
// # Terms
//
// A [Program] has commands, the texts around them, and the variables of the environment. A
// [Command] has a name of one or two words, arguments and flags. A group is the commands whose
// names begin with the same word. A [Call] is what follows the name of a command on a line.
//
// # Guarantees
//
//   - The error of every function is a [UsageError], which says what may be written instead. Where
//     a word is near to one of the table, it names that one.
//   - An unknown flag is an error and never an argument. After -- there are arguments alone, but a
//     word that asks for help does so there, too.
//   - A [Call] has as many arguments as its command takes, and no flag that the command lacks. The
//     command checks what arguments and values mean.
//   - The same program gives the same texts, byte by byte.
//
// All functions are pure, and safe for concurrent use while nobody changes the [Program].
package cli
