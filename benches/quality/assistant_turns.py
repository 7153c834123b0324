"""What a user asks an assistant about Python, and what is asked of the dialogue later: written for this set.

Answers are the pages of ``pydoc``, which every Python has.
"""

from __future__ import annotations

__all__ = ["INSTRUCTIONS", "THEMES", "TOPICS", "UPDATES"]

#: Page of ``pydoc``; what the user asks; how that is asked for later, in other words.
TOPICS = [
    (
        "assert",
        "Can I leave assert statements in production code?",
        "What did I want to know about checks that stay in a release?",
    ),
    (
        "assignment",
        "How does unpacking on the left side of an assignment work?",
        "Where did I ask how several names get values at once?",
    ),
    (
        "async",
        "My coroutine never runs. What does async def really give me?",
        "Which problem did I have with a coroutine that never runs?",
    ),
    (
        "attribute-access",
        "When is __getattr__ called and when __getattribute__?",
        "What did I ask about the two hooks for missing attributes?",
    ),
    (
        "augassign",
        "Is x += y the same as x = x + y for lists?",
        "What was my question about plus-equals on lists?",
    ),
    (
        "binary",
        "Why does the percent operator give a positive result for negative numbers?",
        "What puzzled me about modulo with negative numbers?",
    ),
    ("bitwise", "Which operator has precedence, & or ==?", "What did I ask about ampersand and precedence?"),
    (
        "booleans",
        "Do and and or return a boolean in Python?",
        "What did I ask about the value that or returns?",
    ),
    (
        "calls",
        "How do I forward *args and **kwargs without losing defaults?",
        "When did I ask about passing arguments on to another function?",
    ),
    (
        "class",
        "Are variables in a class body shared by all instances?",
        "What did I ask about sharing variables between instances?",
    ),
    (
        "comparisons",
        "How do chained comparisons like a < b < c work?",
        "Where did I ask about comparing three values in a row?",
    ),
    (
        "context-managers",
        "What do I have to write so that my own object works in a with block?",
        "What did I ask about making an object of mine usable in with?",
    ),
    (
        "customization",
        "Should I define __hash__ when I define __eq__?",
        "What was the question on hashing together with equality?",
    ),
    (
        "debugger",
        "How do I step through a running script with pdb?",
        "Which tool for stepping through a script did I ask about?",
    ),
    ("del", "Does del free the memory at once?", "What did I want to know about freeing memory?"),
    (
        "dict",
        "Are dictionaries ordered now, and can I rely on it?",
        "What did I ask about the order of keys?",
    ),
    (
        "dynamic-features",
        "Why does eval not see my local names?",
        "What went wrong with eval and local names?",
    ),
    ("else", "What does else mean after a for loop?", "What did I ask about else that belongs to a loop?"),
    (
        "exceptions",
        "How does an exception travel up when nobody handles it?",
        "What was my question about an error that nobody handles?",
    ),
    (
        "execmodel",
        "Why do I get UnboundLocalError for a global counter?",
        "Which error did I get for the counter?",
    ),
    (
        "floating",
        "How do I write floats in scientific notation?",
        "Where did I ask about notation with an exponent?",
    ),
    (
        "for",
        "Can I change a list while I loop over it?",
        "What did I ask about changing a list during iteration?",
    ),
    (
        "formatstrings",
        "How do I align numbers to the right in a format string?",
        "What did I want to do with the columns of numbers?",
    ),
    (
        "function",
        "Why does my default list keep growing from call to call?",
        "What strange thing happened with a default value?",
    ),
    ("global", "When do I need the global keyword?", "What did I ask about a keyword for module variables?"),
    ("identifiers", "May names contain umlauts?", "What did I ask about special letters in names?"),
    (
        "import",
        "What is the difference between a relative and an absolute import?",
        "Where did we talk about importing from the same package?",
    ),
    (
        "in",
        "Is membership in a set faster than in a list?",
        "What did I ask about the speed of looking something up?",
    ),
    (
        "integers",
        "Can I put underscores into big numbers?",
        "What did I ask about writing big numbers readably?",
    ),
    (
        "lambda",
        "Why do all my lambdas in the loop return the same value?",
        "What was wrong with the small functions made in a loop?",
    ),
    (
        "lists",
        "Is a list comprehension faster than append?",
        "What did I ask about comprehension against append?",
    ),
    ("nonlocal", "How do I count calls in a closure?", "How did I want to count inside a nested function?"),
    (
        "numeric-types",
        "How do I overload the plus operator for my Money class?",
        "Which class of mine should support addition?",
    ),
    (
        "objects",
        "Does Python collect reference cycles?",
        "What did I ask about garbage that refers to itself?",
    ),
    ("operator-summary", "Where is the table of operator precedence?", "Which table was I looking for?"),
    ("power", "Why is -1 ** 2 negative?", "What surprised me about a square?"),
    (
        "raise",
        "How do I hide the original traceback when I raise another error?",
        "What did I want to hide when raising?",
    ),
    (
        "sequence-types",
        "Which methods make my class iterable?",
        "What did I ask about making a class of mine iterable?",
    ),
    ("slicings", "How do I reverse a sequence with a slice?", "How did I want to turn a sequence around?"),
    (
        "string-methods",
        "How do I split a line at the first colon only?",
        "What did I want to do with a colon?",
    ),
    (
        "strings",
        "What are raw strings good for in regular expressions?",
        "What did I ask about backslashes in patterns?",
    ),
    ("subscriptions", "What happens with a negative index?", "What did I ask about counting from the end?"),
    ("truth", "Is an empty list false?", "What did I ask about emptiness in a condition?"),
    ("try", "Does finally run after a return?", "What did I ask about cleanup code after return?"),
    ("typesmapping", "How do I merge two dicts so that the right one wins?", "What did I want to merge?"),
    ("typesseq", "Are tuples faster than lists?", "Which two containers did I compare for speed?"),
    (
        "while",
        "How do I write a loop that asks until the input is valid?",
        "Which loop about user input did I need?",
    ),
    ("with", "Can I open two files in one with statement?", "What did I want to do with two files?"),
    (
        "yield",
        "How do I send a value into a generator?",
        "What did I ask about giving a value to a generator?",
    ),
]

#: Wishes of the user for the form of answers, and the later questions for them.
INSTRUCTIONS = [
    ("From now on put type hints into every example.", "What did I say about annotations in examples?"),
    ("Please keep answers under ten lines unless I ask for more.", "How long did I want replies to be?"),
    (
        "Never use f-strings in code for this project, the linter forbids them.",
        "Which way of formatting is forbidden here?",
    ),
    ("We support Python 3.9, so no match statements.", "Which version did I say must be supported?"),
    (
        "Name test files after the module, with the prefix check_.",
        "What should the files with tests be called?",
    ),
    ("Show the shell commands for zsh, not bash.", "For which shell did I want the commands?"),
    ("Explain everything as if I came from Java.", "Which language do I come from?"),
    ("Use pathlib instead of os.path in all snippets.", "Which module for paths did I prefer?"),
    ("Write dates as day, month, year in the docs.", "In which order did I want dates written?"),
    ("Do not suggest third-party packages, we cannot install any.", "Why could no packages be suggested?"),
    (
        "Put a one-line docstring on every function that you show.",
        "What should each function in an answer carry?",
    ),
    ("Use four spaces, and no line over 88 columns.", "What was the limit for the width of code?"),
    ("Answer in British spelling.", "Which spelling did I ask for?"),
    (
        "Always say which exception a function may raise.",
        "What did I want to be told about errors of functions?",
    ),
    ("Prefer dataclasses to named tuples in our code.", "Which kind of record did I prefer?"),
]

#: A first statement of the user, its replacement, and the question that wants both, the newer one above all.
UPDATES = [
    (
        "The release is planned for the 3rd of May.",
        "The release has moved to the 17th of May.",
        "When is the release planned?",
    ),
    (
        "Our service listens on port 8080.",
        "We moved the service to port 9443.",
        "On which port does the service listen?",
    ),
    (
        "The coverage has to be at least 80 percent.",
        "The required coverage is 92 percent now.",
        "Which coverage is required?",
    ),
    ("The team lead is Marta.", "Jonas took over as team lead.", "Who leads the team?"),
    (
        "We store the results in SQLite.",
        "We switched the results from SQLite to Postgres.",
        "Where do we store the results?",
    ),
    (
        "The batch job runs at six in the morning.",
        "The batch job runs at midnight from now on.",
        "When does the batch job run?",
    ),
    (
        "The budget for the rewrite is 40 hours.",
        "The budget for the rewrite was cut to 25 hours.",
        "What is the budget for the rewrite?",
    ),
    (
        "The queue has a limit of 500 items.",
        "The limit of the queue was raised to 2000 items.",
        "What is the limit of the queue?",
    ),
    (
        "Logs are kept for thirty days.",
        "Logs are kept for a week only, says legal.",
        "How long are logs kept?",
    ),
    (
        "The parser is written by hand.",
        "We replaced the parser by a generated one.",
        "How is the parser made?",
    ),
]

#: Questions for all that was said of a subject, and the pages that belong to it.
THEMES = [
    ("everything we said about exceptions and errors", ("assert", "exceptions", "execmodel", "raise", "try")),
    ("all my questions about loops and iteration", ("else", "for", "lambda", "sequence-types", "while")),
    (
        "what we discussed about numbers and arithmetic",
        ("binary", "floating", "integers", "numeric-types", "power"),
    ),
    (
        "all that was said about operators and precedence",
        ("bitwise", "comparisons", "operator-summary", "power"),
    ),
    ("what I asked about functions and their arguments", ("calls", "function", "lambda", "nonlocal")),
    (
        "everything about classes and special methods",
        ("attribute-access", "class", "customization", "numeric-types", "sequence-types"),
    ),
    (
        "all about lists, tuples and slices",
        ("augassign", "for", "lists", "slicings", "subscriptions", "typesseq"),
    ),
    ("what we said about dictionaries", ("dict", "typesmapping")),
    ("all about strings and formatting", ("formatstrings", "string-methods", "strings")),
    ("everything on context managers and with", ("context-managers", "with")),
    ("what I asked about generators and coroutines", ("async", "yield")),
    (
        "all questions about names and scopes",
        ("dynamic-features", "execmodel", "global", "identifiers", "nonlocal"),
    ),
]
