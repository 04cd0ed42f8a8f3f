"""Run unittest modules, and print a line "ok ..." or "not ok ..." for each test: see lib.sh."""

import sys
import unittest


class Result(unittest.TestResult):
    def name(self, test):
        return f"{test.id().split('.', 1)[-1]}: {test.shortDescription() or ''}"

    def failed(self, test, error):
        print(f"not ok {self.name(test)}")
        for line in self._exc_info_to_string(error, test).splitlines():
            print(f"  {line}")

    def addSuccess(self, test):
        print(f"ok {self.name(test)}")

    def addError(self, test, err):
        super().addError(test, err)
        self.failed(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.failed(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.failed(subtest, err)

    def addSkip(self, test, reason):
        print(f"ok {self.name(test)} (skipped: {reason})")


if __name__ == "__main__":
    result = Result()
    unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]).run(result)
    sys.exit(not result.wasSuccessful())
