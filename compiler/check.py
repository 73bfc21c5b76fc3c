class ProgramError(ValueError):
    pass
def check(program):
    pass
